"""The end of a capture: rows that hold for now, and the state from which the next capture goes on."""

from __future__ import annotations

import json
from typing import Any, Final

from namesrv_wire.errors import WireError
from namesrv_wire.json_text import canonical_json
from namesrv_wire.rows import REVOKED, AnyRow, FrameRow, Place, Row
from namesrv_wire.servers.recording import UP, Hole, Life, Silence
from namesrv_wire.servers.server import Server
from namesrv_wire.streams.closing import LATE_NS
from namesrv_wire.streams.connection import Connection

CARRY_SCHEMA: Final = "namesrv-carry/3"


def end_rows(server: Server) -> list[AnyRow]:
    """Return the rows that hold if nothing more is read.

    Earlier such rows that no longer hold are revoked.

    Unanswered requests of open connections take effect at their arrival; connections silent beyond the idle
    limit are closed by its timer; a name server that closed all its connections at once has stopped.
    """
    rows: list[AnyRow] = []
    for connection in server.connections.values():
        if connection.closed_ns is not None:
            continue
        rows += [pending.row for pending in connection.waiting if pending.row is not None]
        if connection.idle_ns is not None and server.recording.last_packet_ns > connection.idle_ns + LATE_NS:
            rows += server.endings.timer_rows(connection)
    burst = None if server.life is None else server.life.burst
    if burst is not None and burst.complete and burst.count >= 2 and server.life and server.life.state == UP:
        place = Place(*burst.source, burst.first_ns)
        rows.append(server.ledger.fact_row("stopped", burst.evidence, burst.seq, place))
    now = {row.event_id if isinstance(row, FrameRow) else str(row.values["event_id"]): row.table for row in rows}
    for event_id, table in server.ledger.provisional.items():
        if event_id not in now:
            rows.append(Row(REVOKED, {"table": table, "event_id": event_id}))
    server.ledger.provisional = now
    return rows


def dump(server: Server) -> str:
    """Return a name server's state as strict JSON; call `end_rows` before."""
    state = {
        "schema": CARRY_SCHEMA,
        "namesrv_id": server.id,
        "confirmed": server.ledger.confirmed,
        "last_packet_ns": server.recording.last_packet_ns,
        "time_ns": server.ledger.time_ns,
        "last_slot": server.ledger.last_slot,
        "version": server.ledger.version,
        "life": None if server.life is None else server.life.dump(),
        "hole": server.recording.hole,
        "hole_end_ns": server.recording.hole_end_ns,
        "silence": server.recording.silence,
        "whole_since_ns": server.recording.whole_since_ns,
        "is_behind": server.recording.is_behind,
        "syns": list(server.attempts.syns.items()),
        "provisional": server.ledger.provisional,
        "held": [[row.table, row.values] for row in server.ledger.held],
        "tally": [] if server.ledger.confirmed else server.tally.dump(),
    }
    texts = {name: canonical_json(value) for name, value in state.items()}
    # One by one: as objects many connections take far more memory than as text.
    texts["open"], texts["overdue"], texts["closed"] = (
        f"[{','.join(canonical_json(connection.dump(server.recording.last_packet_ns)) for connection in connections)}]"
        for connections in (server.idle.open.values(), server.idle.overdue.values(), server.endings.lingering.values())
    )
    members = ",".join(f'"{name}":{texts[name]}' for name in sorted(texts))
    return f"{{{members}}}"


def load(server: Server, text: str) -> list[Connection]:
    """Put a state from `dump` into a new server and return its connections. Raises `WireError` for anything else."""
    try:
        state: dict[str, Any] = json.loads(text)
        if state["schema"] == CARRY_SCHEMA and state["namesrv_id"] == server.id:
            return _restored(server, state)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WireError(f"state of {server.id} is no {CARRY_SCHEMA}: {error!r}") from error
    raise WireError(f"state of {server.id}: schema {state['schema']}, {CARRY_SCHEMA} expected")


def _restored(server: Server, state: dict[str, Any]) -> list[Connection]:
    ledger, recording = server.ledger, server.recording
    ledger.confirmed = ledger.confirmed or bool(state["confirmed"])
    ledger.last_slot = int(state["last_slot"])
    ledger.version = None if state["version"] is None else int(state["version"])
    recording.last_packet_ns = int(state["last_packet_ns"])
    # Another one if the clock went back.
    ledger.time_ns = int(state["time_ns"])
    server.will_purge_after(server.recording.last_packet_ns)
    server.life = None if state["life"] is None else Life.load(state["life"])
    recording.hole = None if state["hole"] is None else Hole(*state["hole"])
    recording.hole_end_ns = int(state["hole_end_ns"])
    recording.silence = None if state["silence"] is None else Silence(*state["silence"])
    recording.whole_since_ns = int(state["whole_since_ns"])
    recording.is_behind = bool(state["is_behind"])
    server.attempts.syns.update((str(client), int(seq)) for client, seq in state["syns"])
    ledger.provisional = {str(event_id): str(table) for event_id, table in state["provisional"].items()}
    ledger.held.extend(Row(str(table), dict(values)) for table, values in state["held"])
    ledger.tally.load(state["tally"])
    connections = []
    for name in ("open", "overdue", "closed"):
        for described in state[name]:
            connection = Connection.load(described)
            connections.append(connection)
            server.connections[connection.client] = connection
            if name == "closed":
                server.endings.lingering[connection.client] = connection
            else:
                server.idle.restore(connection)
    return connections
