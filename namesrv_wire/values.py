"""Plain records, as bodies decode into and bronze rows hold them, to the core's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from namesrv_core.machine.rows import DataVersion, QueueData
from namesrv_wire.errors import DecodeError, Reason
from namesrv_wire.json_text import parse_json, text_of
from namesrv_wire.limits import MAX_NAME_CHARS

Record = Mapping[str, Any]


def require_short(what: str, name: str | None) -> None:
    """Raise `DecodeError` if a name is longer than one is."""
    if name is not None and len(name) > MAX_NAME_CHARS:
        raise DecodeError(Reason.NAME_TOO_LONG, f"{what}: {len(name)} characters, at most {MAX_NAME_CHARS}")


@lru_cache(4_096)
def header_fields_of(text: str) -> tuple[tuple[str, str], ...]:
    """Return the header fields that a JSON text has, in order of name; those that are null are none.

    A number or a truth value is the text that it becomes on the wire. Raises `DecodeError` for a text that is no such object.
    """
    found = parse_json(text.encode("utf-8", "surrogatepass"), "header fields", is_ours=True)
    if not isinstance(found, dict):
        raise DecodeError(Reason.BAD_JSON, "header fields: no object")
    texts = ((name, text_of(value, f"header field {name[:60]!r}")) for name, value in found.items())
    return tuple(sorted((name, value) for name, value in texts if value is not None))


def data_version_of(record: Record | None) -> DataVersion | None:
    """Return the core's data version of a `data_version` record."""
    return None if record is None else DataVersion(record["state_version"], record["timestamp"], record["counter"])


def queue_datas_of(records: Sequence[Record] | None) -> tuple[tuple[str | None, QueueData], ...] | None:
    """Return queue data by broker name, in their order; names may repeat."""
    return None if records is None else tuple((q["broker_name"], queue_data_of(q)) for q in records)


def queue_data_of(record: Record) -> QueueData:
    """Return the core's queue data of a record that has them."""
    return QueueData(record["read_queue_nums"], record["write_queue_nums"], record["perm"], record["topic_sys_flag"])
