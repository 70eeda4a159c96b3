"""The end of a capture: rows that hold for now, and the state from which the next capture goes on."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

from namesrv_wire.errors import WireError
from namesrv_wire.json_text import canonical_json
from namesrv_wire.rows import REVOKED, AnyRow, FrameRow, Place, Row, Tally
from namesrv_wire.servers.recording import UP, Hole, Life, Silence, Start
from namesrv_wire.servers.server import Server
from namesrv_wire.streams.closing import LATE_NS
from namesrv_wire.streams.connection import Connection

CARRY_SCHEMA: Final = "namesrv-carry/8"
_OF_LEDGER: Final = ("confirmed", "time_ns", "written_ns", "doubted_ns", "last_slot", "version", "provisional")
_OF_RECORDING: Final = ("last_packet_ns", "hole", "hole_end_ns", "silences", "start", "whole_since_ns", "is_behind")


def end_rows(server: Server) -> list[AnyRow]:
    """Return the rows that hold if nothing more is read.

    Earlier such rows that no longer hold are revoked.

    Unanswered requests of open connections take effect at their arrival; connections silent beyond the idle
    limit are closed by its timer; a name server that closed all its connections at once has stopped; one that started behind a
    silence has not started in it.
    """
    rows: list[FrameRow] = []
    for connection in server.connections.values():
        if connection.closed_ns is not None:
            continue
        rows += [pending.row for pending in connection.waiting if pending.row is not None]
        if connection.idle_ns is not None and server.recording.last_packet_ns > connection.idle_ns + LATE_NS:
            rows += server.endings.timer_rows(connection)
    start = server.recording.start
    if start is not None:
        rows.append(server.ledger.fact_row("started", start.evidence, start.seq, start.place))
    burst = None if server.life is None else server.life.burst
    if burst is not None and burst.complete and burst.count >= 2 and server.life and server.life.state == UP:
        place = Place(*burst.source, burst.first_ns)
        rows.append(server.ledger.fact_row("stopped", burst.evidence, burst.seq, place))
    now = {row.event_id: row.table for row in rows}
    gone = {event_id: table for event_id, table in server.ledger.provisional.items() if event_id not in now}
    server.ledger.provisional = now
    return [*rows, *(Row(REVOKED, {"table": table, "event_id": event_id}) for event_id, table in gone.items())]


def dump(server: Server) -> str:
    """Return a name server's state as strict JSON; call `end_rows` before."""
    ledger, recording, confirmed = server.ledger, server.recording, server.ledger.confirmed
    state = {
        "schema": CARRY_SCHEMA,
        "namesrv_id": server.id,
        "ledger": {name: getattr(ledger, name) for name in _OF_LEDGER},
        "recording": {name: getattr(recording, name) for name in _OF_RECORDING},
        "life": server.life and asdict(server.life),
        "syns": list(server.attempts.syns.items()),
        "held": list(ledger.held),
        "tally": {} if confirmed else {name: getattr(server.tally, name) for name in Tally.__slots__},
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
    ledger, recording, confirmed = server.ledger, server.recording, server.ledger.confirmed
    for of, names in ((ledger, _OF_LEDGER), (recording, _OF_RECORDING)):
        for name in names:
            setattr(of, name, state["ledger" if of is ledger else "recording"][name])
    ledger.confirmed |= confirmed
    recording.hole = recording.hole and Hole(*recording.hole)
    recording.silences = [Silence(*silence) for silence in recording.silences]
    recording.start = recording.start and Start(*recording.start[:2], Place(*recording.start[2]))
    server.will_purge_after(recording.last_packet_ns)
    server.life = state["life"] and Life.load(state["life"])
    server.attempts.syns.update(state["syns"])
    ledger.held.extend(Row(*row) if len(row) == len(Row._fields) else FrameRow(*row) for row in state["held"])
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
                server.watch(connection)
    return connections
