"""Closes by the idle limit: which connections are silent, and what a closing packet then means.

Source: both generations `NettyRemotingServer` (`serverChannelMaxIdleTimeSeconds`, 120 s) and
`RemotingUtil.closeChannel`: Netty closes a channel that neither sent nor received for the limit.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
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
"""So many timers of connections that are gone, beyond twice as many as are watched, wait to be forgotten."""

Verdict = Literal["idle", "timer", "other"]


class Idle:
    """Open connections of one name server; those whose silence has reached the limit are kept apart, as overdue."""

    __slots__ = ("_numbers", "_timers", "given_up", "inactive", "limit_ns", "open", "overdue", "unsigned")

    def __init__(self, idle_ms: int) -> None:
        self.limit_ns = idle_ms * 1_000_000
        self.open: dict[str, Connection] = {}
        self.overdue: dict[str, Connection] = {}
        self.given_up: list[Connection] = []
        """Of these, those of which nothing was heard for long."""
        self.inactive: dict[str, Connection] = {}
        """Of these, all that wait for the name server's next activity."""
        self.unsigned: dict[str, Connection] = {}
        """Likewise for any packet of its machine, which acknowledges while the process stands still."""
        self._timers: list[tuple[int, str, int, Connection]] = []
        """A heap: when a connection is to be looked at, which is never later than its time runs out, and which it is."""
        self._numbers = count()

    @property
    def due_ns(self) -> int:
        """Return a time before which no silence reaches the limit, and no overdue connection is given up."""
        return self._timers[0][0] if self._timers else NEVER_NS

    def heard(self, connection: Connection, time_ns: int) -> None:
        """Note bytes on an open connection: its silence begins anew."""
        connection.last_byte_ns = time_ns
        if connection.idle_ns is not None:
            connection.idle_ns = connection.first_active_ns = connection.first_sign_ns = None
            self._leave(connection)
        if self.open.get(connection.client) is not connection:
            self.open[connection.client] = connection
            self._watch(connection)

    def restore(self, connection: Connection) -> None:
        """Put back a connection from an earlier capture, in the order given."""
        if connection.idle_ns is None:
            self.open[connection.client] = connection
            self._watch(connection)
        else:
            self._add_overdue(connection)

    def forget(self, connection: Connection) -> None:
        """Stop watching a connection."""
        if self.open.get(connection.client) is connection:
            del self.open[connection.client]
        self._leave(connection)

    def _leave(self, connection: Connection) -> None:
        for table in (self.overdue, self.inactive, self.unsigned):
            if table.get(connection.client) is connection:
                del table[connection.client]

    def _add_overdue(self, connection: Connection) -> None:
        self.overdue[connection.client] = connection
        if connection.first_active_ns is None:
            self.inactive[connection.client] = connection
        if connection.first_sign_ns is None:
            self.unsigned[connection.client] = connection
        self._watch(connection)

    def _runs_out_ns(self, connection: Connection) -> int | None:
        """Return when a connection's silence reaches the limit, or it is given up; None: it is not watched any more.

        What a client has sent does not count where the name server's side never acknowledged it.
        """
        table = self.open if connection.idle_ns is None else self.overdue
        if table.get(connection.client) is not connection:
            return None
        if connection.idle_ns is None:
            return (connection.taken_ns or connection.last_byte_ns) + self.limit_ns
        return connection.idle_ns + GIVE_UP_NS

    def _watch(self, connection: Connection) -> None:
        """Have a connection looked at when its time runs out. Until then that may become later, never earlier."""
        connection.timer_ns = self._runs_out_ns(connection)
        if connection.timer_ns is not None:
            heappush(self._timers, (connection.timer_ns, connection.channel_id, next(self._numbers), connection))
        if len(self._timers) > 2 * (len(self.open) + len(self.overdue)) + _FEW_STALE:
            self._timers = [each for each in self._timers if each[3].timer_ns == each[0] and self._runs_out_ns(each[3])]
            heapify(self._timers)

    def passed(self, time_ns: int) -> list[Connection]:
        """Return the connections whose silence reached the limit before `time_ns`, in that order: they are overdue from now on.

        Overdue ones of which nothing was heard for long are in `given_up` then, in the order in which their silence ended.
        """
        passed: list[Connection] = []
        while self.due_ns < time_ns:
            at_ns, *_, connection = heappop(self._timers)
            if at_ns != connection.timer_ns:
                continue
            runs_out_ns = self._runs_out_ns(connection)
            if runs_out_ns is None or runs_out_ns > at_ns:
                self._watch(connection)
            elif connection.idle_ns is None:
                connection.idle_ns, connection.first_active_ns, connection.first_sign_ns = runs_out_ns, None, None
                del self.open[connection.client]
                self._add_overdue(connection)
                passed.append(connection)
            else:
                connection.timer_ns = None
                self.given_up.append(connection)
        return passed

    def sign(self, time_ns: int) -> None:
        """Note a packet of the name server's machine, whatever its process does: nothing keeps packets back that it sends."""
        for connection in self.unsigned.values():
            connection.first_sign_ns = time_ns
        self.unsigned.clear()

    def active(self, time_ns: int) -> list[Connection]:
        """Note that the name server did something: it was not frozen at that time.

        Return the connections that are closed only now since it stood still when their silence reached the limit: its machine
        went on, and the process did not.
        """
        thawed = []
        for connection in self.inactive.values():
            connection.first_active_ns = time_ns
            if connection.first_sign_ns is not None and time_ns - connection.first_sign_ns > LATE_NS:
                connection.idle_ns = time_ns
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
