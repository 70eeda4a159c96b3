"""How connections of a name server end: the rows of it, and what is remembered of them."""

from __future__ import annotations

from collections import OrderedDict

from namesrv_wire.errors import DecodeError, Reason
from namesrv_wire.limits import MAX_LINGERING
from namesrv_wire.rows import Place, Row, channel_row
from namesrv_wire.servers.exchange import Exchange
from namesrv_wire.servers.ledger import Ledger
from namesrv_wire.servers.recording import Recording
from namesrv_wire.streams.closing import Idle
from namesrv_wire.streams.connection import Connection
from namesrv_wire.streams.cutting import Cut


class Endings:
    """Ends connections, by a packet, by the idle limit, or because they had ended before."""

    def __init__(self, ledger: Ledger, idle: Idle, exchange: Exchange, recording: Recording) -> None:
        self._ledger, self._idle, self._exchange, self._recording = ledger, idle, exchange, recording
        self.lingering: OrderedDict[str, Connection] = OrderedDict()
        """Ended connections, remembered to know late copies of their segments."""

    def close(self, connection: Connection, closed_by: str, kinds: tuple[str, ...], silent_ns: int) -> None:
        """Write the end of a connection.

        First its unanswered requests, then its kinds, all at this packet.
        """
        self._flush(connection)
        waiting = connection.waiting
        for pending in waiting:
            if pending.row is not None:
                # It stays so: an answer that comes all the same changes nothing about when it took effect.
                pending.row = pending.row._replace(seq=self._ledger.slot(), effect_us=self._ledger.time_ns // 1_000)
                self._ledger.emit(pending.row)
        connection.orphans.clear()
        for kind in kinds:
            self._emit(connection, kind, closed_by, silent_ns, len(waiting))
        self.ended(connection)

    def by_timer(self, connection: Connection, closed_by: str | None = None, silent_ns: int = 0) -> None:
        """Write the end of a connection that the idle limit closed without a packet.

        `closed_by`: who sent the packet that came later. It is kept: with another limit it is the end.
        """
        for row in self.timer_rows(connection):
            self._ledger.emit(row)
        self._flush(connection)
        if closed_by is not None:
            self._emit(connection, "late_close", closed_by, silent_ns, len(connection.waiting))
        self._exchange.unanswered_at_arrival(connection)
        self.ended(connection)

    def _emit(self, connection: Connection, kind: str, closed_by: str, silent_ns: int, unanswered: int) -> None:
        shared = self._ledger.envelope(self._ledger.slot(), kind, connection, self._ledger.place)
        self._ledger.emit(channel_row(shared, kind, closed_by, connection.client, silent_ns // 1_000_000, unanswered))

    def timer_rows(self, connection: Connection) -> list[Row]:
        """Return the idle and close rows at the end of a connection's silence."""
        place = Place(*connection.last_source, connection.idle_ns or 0)
        rows = []
        for step, kind in enumerate(("idle", "close")):
            shared = self._ledger.envelope(connection.idle_seq + step, kind, connection, place)
            silent = self._idle.limit_ns // 1_000_000
            rows.append(channel_row(shared, kind, "timer", connection.client, silent, len(connection.waiting)))
        return rows

    def reached_nobody(self, connection: Connection) -> None:
        """Take back what came on a connection that had ended before the capture."""
        self._flush(connection)
        self._exchange.withdraw(connection, 0)
        self.ended(connection)

    def ended(self, connection: Connection) -> None:
        """Note that a connection has ended: now, or before the capture."""
        if connection.is_silent:
            nothing = DecodeError(Reason.SILENT_CONNECTION, "opened and ended without a byte")
            self._exchange.refused(connection, Cut(0, b"", nothing), from_server=False)
        connection.closed_ns = self._ledger.time_ns
        self._idle.forget(connection)
        self.lingering[connection.client] = connection
        if len(self.lingering) > MAX_LINGERING:
            self._recording.calm_until_ns = -1

    def _flush(self, connection: Connection) -> None:
        """Decode what stands behind holes, and refuse frames that never ended."""
        for half, from_server in ((connection.from_server, True), (connection.from_client, False)):
            for cut in [*half.cuts(half.stream.flush(self._ledger.time_ns)), *half.cutter.end()]:
                self._exchange.frame(connection, cut, from_server=from_server)
