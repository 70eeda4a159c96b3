"""Closes by the idle limit: which connections are silent, and what a closing packet then means.

Source: both generations `NettyRemotingServer` (`serverChannelMaxIdleTimeSeconds`, 120 s) and
`RemotingUtil.closeChannel`: Netty closes a channel that neither sent nor received for the limit.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heapify, heappop, heappush
from operator import itemgetter
from typing import Final, Literal

from namesrv_wire.streams.connection import Connection

EARLY_NS: Final = 5_000_000
LATE_NS: Final = 250_000_000
"""A close between `EARLY_NS` before and `LATE_NS` after the end of the silence is the idle handler's.

Seen: 1 to 61 ms after.
"""
GIVE_UP_NS: Final = 600_000_000_000
"""A connection that is silent for this long after its idle close is done with."""

NEVER_NS: Final = 1 << 63

_FEW_STALE: Final = 1_000
"""So many that are overdue no more, beyond as many as are, wait to be forgotten."""

Verdict = Literal["idle", "timer", "other"]


class Idle:
    """Open connections of one name server in the order of their last byte.

    Those whose silence reached the limit are kept apart, as overdue.
    """

    __slots__ = (
        "_added",
        "_in_order",
        "_said",
        "_unheard",
        "due_ns",
        "inactive",
        "limit_ns",
        "open",
        "overdue",
        "unsigned",
    )

    def __init__(self, idle_ms: int) -> None:
        self.limit_ns = idle_ms * 1_000_000
        self.open: OrderedDict[str, Connection] = OrderedDict()
        self.overdue: dict[str, Connection] = {}
        # There may be very many of them: none is looked at again for each packet.
        self._in_order: list[tuple[int, int, Connection]] = []
        """A heap of those that were added to `overdue`, by the end of their silence, with how many were added before."""
        self.inactive: list[Connection] = []
        """Of these, all that wait for the name server's next activity."""
        self.unsigned: list[Connection] = []
        """Likewise for any packet of its machine, which acknowledges while the process stands still."""
        self._said: set[str] = set()
        """Clients that have said something since silence ended last: most of it is acknowledged by the next time."""
        self._unheard: list[tuple[int, str]] = []
        """A heap of those with bytes of the client that were not acknowledged by then: `taken_ns`, and the client."""
        self._added = 0
        self.due_ns = 0
        """No silence reaches the limit before this time; kept low rather than exact."""

    @property
    def gives_up_ns(self) -> int:
        """Return a time before which no overdue connection is given up; kept low rather than exact."""
        return self._in_order[0][0] + GIVE_UP_NS if self._in_order else NEVER_NS

    def heard(self, connection: Connection, time_ns: int) -> None:
        """Note bytes on an open connection: its silence begins anew."""
        connection.last_byte_ns = time_ns
        if connection.idle_ns is not None:
            connection.idle_ns = connection.first_active_ns = connection.first_sign_ns = None
            self.overdue.pop(connection.client, None)
        self.open[connection.client] = connection
        self.open.move_to_end(connection.client)

    def not_acknowledged(self, connection: Connection) -> None:
        """Note that bytes of the client came that the name server's side may not get."""
        self._said.add(connection.client)
        self.due_ns = min(self.due_ns, connection.taken_ns + self.limit_ns)

    def _unheard_since(self, taken_ns: int, client: str) -> Connection | None:
        connection = self.open.get(client)
        return connection if connection is not None and connection.taken_ns == taken_ns else None

    def restore(self, connection: Connection) -> None:
        """Put back an open connection from an earlier capture, in the order given."""
        self.due_ns = 0
        if connection.idle_ns is None:
            self.open[connection.client] = connection
            if connection.taken_ns:
                self.not_acknowledged(connection)
        else:
            self._add_overdue(connection, connection.idle_ns)

    def _add_overdue(self, connection: Connection, idle_ns: int) -> None:
        self.overdue[connection.client] = connection
        self._added += 1
        heappush(self._in_order, (idle_ns, self._added, connection))
        if connection.first_active_ns is None:
            self.inactive.append(connection)
        if connection.first_sign_ns is None:
            self.unsigned.append(connection)
        if max(len(self._in_order), len(self.inactive), len(self.unsigned)) > 2 * len(self.overdue) + _FEW_STALE:
            self._in_order = [each for each in self._in_order if self._is_overdue_since(each[2], each[0])]
            heapify(self._in_order)
            self.inactive = [c for c in self.inactive if self.overdue.get(c.client) is c]
            self.unsigned = [c for c in self.unsigned if self.overdue.get(c.client) is c]

    def _is_overdue_since(self, connection: Connection, idle_ns: int) -> bool:
        return self.overdue.get(connection.client) is connection and connection.idle_ns == idle_ns

    def forget(self, connection: Connection) -> None:
        """Stop watching a connection."""
        for table in (self.open, self.overdue):
            if table.get(connection.client) is connection:
                del table[connection.client]

    def passed(self, time_ns: int) -> list[Connection]:
        """Return the connections whose silence reached the limit before `time_ns`.

        They are overdue from now on. What a client has sent does not count where the name server's side never acknowledged it.
        """
        passed: list[Connection] = []
        for client in self._said:
            said = self.open.get(client)
            if said is not None and said.taken_ns:
                heappush(self._unheard, (said.taken_ns, client))
        self._said.clear()
        if len(self._unheard) > 2 * len(self.open) + _FEW_STALE:
            self._unheard = [each for each in self._unheard if self._unheard_since(*each) is not None]
            heapify(self._unheard)
        while self._unheard:
            idle_ns, connection = self._unheard[0][0] + self.limit_ns, self._unheard_since(*self._unheard[0])
            if connection is not None and idle_ns >= time_ns:
                break
            heappop(self._unheard)
            if connection is not None:
                self._end_silence(connection, idle_ns)
                passed.append(connection)
        self.due_ns = time_ns
        while self.open:
            connection = next(iter(self.open.values()))
            self.due_ns = connection.last_byte_ns + self.limit_ns
            if self.due_ns >= time_ns:
                break
            self._end_silence(connection, self.due_ns)
            passed.append(connection)
        if self._unheard:
            self.due_ns = min(self.due_ns, self._unheard[0][0] + self.limit_ns)
        return sorted(passed, key=lambda connection: connection.idle_ns or 0)

    def _end_silence(self, connection: Connection, idle_ns: int) -> None:
        connection.idle_ns, connection.first_active_ns, connection.first_sign_ns = idle_ns, None, None
        self._add_overdue(self.open.pop(connection.client), idle_ns)

    def given_up(self, time_ns: int) -> list[Connection]:
        """Return overdue connections of which nothing was heard for long, each once, in the order in which they became that."""
        found: list[tuple[int, Connection]] = []
        while self._in_order and time_ns - self._in_order[0][0] > GIVE_UP_NS:
            idle_ns, number, connection = heappop(self._in_order)
            if self._is_overdue_since(connection, idle_ns):
                found.append((number, connection))
        return [connection for _, connection in sorted(found, key=itemgetter(0))]

    def sign(self, time_ns: int) -> None:
        """Note a packet of the name server's machine, whatever its process does: nothing keeps packets back that it sends."""
        for connection in self.unsigned:
            if connection.first_sign_ns is None and self.overdue.get(connection.client) is connection:
                connection.first_sign_ns = time_ns
        self.unsigned.clear()

    def active(self, time_ns: int) -> list[Connection]:
        """Note that the name server did something: it was not frozen at that time.

        Return the connections that are closed only now since it stood still when their silence reached the limit: its machine
        went on, and the process did not.
        """
        thawed = []
        for connection in self.inactive:
            if connection.first_active_ns is None and self.overdue.get(connection.client) is connection:
                connection.first_active_ns = time_ns
                if connection.first_sign_ns is not None and time_ns - connection.first_sign_ns > LATE_NS:
                    connection.idle_ns = time_ns
                    self._added += 1
                    heappush(self._in_order, (time_ns, self._added, connection))
                    thawed.append(connection)
        self.inactive.clear()
        return thawed

    def is_outlasted(self, connection: Connection, time_ns: int) -> bool:
        """Return whether a connection with bytes of the server at `time_ns` should have been closed before.

        A server that was frozen closes only after it has thawed.
        """
        if connection.idle_ns is None:
            return False
        return time_ns - max(connection.idle_ns, connection.first_active_ns or time_ns) > LATE_NS

    def judge(self, connection: Connection, time_ns: int, silent_ns: int) -> Verdict:
        """Return what a closing packet at `time_ns` on this connection means.

        'idle': the idle handler closes now, maybe late because the process was frozen; 'timer': it closed
        long ago and its packet was lost; 'other': it is no idle close. Note before that the name server is `active`.
        """
        if connection.idle_ns is None:
            return "idle" if silent_ns >= self.limit_ns - EARLY_NS else "other"
        sign_ns, is_active = connection.first_sign_ns, connection.first_active_ns is not None
        stands_still = not is_active and sign_ns is not None and time_ns - sign_ns > LATE_NS
        since = time_ns if stands_still else connection.idle_ns
        if connection.client_fin_ns is not None:
            since = max(since, connection.client_fin_ns)
        if time_ns - since > LATE_NS:
            return "timer"
        return "other" if connection.client_fin_ns is not None else "idle"
