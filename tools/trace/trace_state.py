"""The canonical JSON of a registry's state and its hash, kept up to date row by row.

An event changes a few rows of thousands, and a trace wants the state's hash after every event. So the text of each row
is kept, and only what an event has touched is written anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from namesrv_core.machine.registry import Change, Registry, TableName
from namesrv_core.machine.tables import LiveKey
from tools.trace.state import OuterKey, members_of, name_json, pending_json, row_json

_KEYED_BY_ADDRESS = ("broker_live_table", "filter_server_table")

canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


class StateText:
    """The state of one registry as text. `changed` must be told of every change; `text` and `digest` are then right."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._members = dict(sorted(members_of(registry).items()))
        self._rows: dict[TableName, dict[str, str]] = {table: {} for table in self._members.values()}
        self._joined: dict[TableName, str] = {}
        self._stale: dict[TableName, set[OuterKey]] = {table: set(getattr(registry, table)) for table in self._rows}
        self._digest: str | None = None

    def changed(self, changes: Iterable[Change], refreshed: LiveKey | None) -> None:
        """Note what an event has changed."""
        for table, key, _ in changes:
            if table in self._stale:
                self._stale[table].add(LiveKey(*key) if table in _KEYED_BY_ADDRESS else key[0])
            self._digest = None
        if refreshed is not None:
            self._stale["broker_live_table"].add(refreshed)
            self._digest = None

    def text(self) -> str:
        """Return the canonical JSON: members sorted, no blanks, nothing escaped that need not be."""
        members = {member: self._table_text(table) for member, table in self._members.items()}
        if self._registry.profile.batches_unregistrations:
            members["pendingUnregister"] = canonical(pending_json(self._registry))
        return "{" + ",".join([f'"{member}":{members[member]}' for member in sorted(members)]) + "}"

    def digest(self) -> str:
        """Return the first 16 hex digits of the SHA-256 of `text`."""
        if self._digest is None:
            text = self.text().encode("utf-8", errors="surrogatepass")
            self._digest = hashlib.sha256(text).hexdigest()[:16]
        return self._digest

    def _table_text(self, table: TableName) -> str:
        stale, rows = self._stale[table], self._rows[table]
        if stale or table not in self._joined:
            present = getattr(self._registry, table)
            for key in stale:
                name = name_json(key)
                if key in present:
                    rows[name] = f"{canonical(name)}:{canonical(row_json(self._registry, table, key))}"
                else:
                    rows.pop(name, None)
            stale.clear()
            self._joined[table] = "{" + ",".join([rows[name] for name in sorted(rows)]) + "}"
        return self._joined[table]
