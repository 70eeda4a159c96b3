"""Orders of events that took effect at about the same time, and orders of several units made one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from namesrv_core.history.verification import Observed
from namesrv_core.machine.events import ChannelDestroyed
from namesrv_core.machine.instants import NS_PER_US
from namesrv_core.machine.rows import LiveKey
from namesrv_core.replay.loop import TimedEvent

_MOST_INSTANTS = 4_000


class Held(NamedTuple):
    """An event of a burst, and between which positions it took effect."""

    timed: TimedEvent
    earliest: int
    latest: int

    @property
    def wanted(self) -> int:
        """Return the recorded position, or the nearest to it that is possible."""
        return min(max(self.timed.seq, self.earliest), self.latest)


class Item(NamedTuple):
    """An event in an order, by its number in the burst. `looked_up`: see ChannelDestroyed."""

    number: int
    looked_up: LiveKey | None = None


class Instant(NamedTuple):
    """A time behind an event and before another one, by their numbers in the burst; None: anything."""

    behind: int | None
    before: int | None


def assigned(held: Sequence[Held], order: Sequence[Item]) -> list[TimedEvent]:
    """Return the events of an order with positions that increase: as wanted, or else just before the next one."""
    places: list[int] = []
    for item in reversed(order):
        places.append(min(held[item.number].wanted, places[-1] - 1 if places else held[item.number].wanted))
    found: list[TimedEvent] = []
    last = -1
    for item, place in zip(order, reversed(places), strict=True):
        each = held[item.number]
        timed, event = each.timed, each.timed.event
        last = max(place, each.earliest, last + 1)
        if item.looked_up is not None and isinstance(event, ChannelDestroyed):
            event = event._replace(looked_up=item.looked_up)
        found.append(timed._replace(seq=last, effect_us=last // NS_PER_US, event=event))
    return found


class Graph(NamedTuple):
    """Which events of a burst come before which: `after` says of each, as bits, which come behind it."""

    held: tuple[Held, ...]
    after: tuple[int, ...]

    def with_pairs(self, pairs: Iterable[tuple[int, int]]) -> Graph | None:
        """Return the graph with the first event of each pair before the other one; None: it cannot be."""
        after = self.after
        for one, other in pairs:
            if one == other or after[other] >> one & 1:
                return None
            if not after[one] >> other & 1:
                behind = after[other] | 1 << other
                after = tuple(each | behind if n == one or each >> one & 1 else each for n, each in enumerate(after))
        return self._replace(after=after)

    def around(self, observed: Observed, instant: Instant) -> Graph | None:
        """Return the graph in which an answer may show that instant: what it shows was there before it was given."""
        held, pairs = list(self.held), []
        if instant.behind is not None:
            each = held[instant.behind]
            latest = min(each.latest, observed.seq - len(held) - 1)  # events of one instant are put a little apart
            if latest < each.earliest:
                return None
            held[instant.behind] = each._replace(latest=latest)
            pairs += [(instant.behind, n) for n, other in enumerate(held) if latest < other.earliest]
        if instant.before is not None:
            each = held[instant.before]
            earliest = max(each.earliest, observed.request_seq + 1)
            if each.latest < earliest:
                return None
            held[instant.before] = each._replace(earliest=earliest)
            pairs += [(n, instant.before) for n, other in enumerate(held) if other.latest < earliest]
        return self._replace(held=tuple(held)).with_pairs(pairs)

    def showing(self, observed: Observed, of_units: Sequence[Sequence[Instant]]) -> Graph | None:
        """Return the graph in which an answer shows all units at one instant, each at one of its own; None: none is found."""
        waiting = [(self, tuple[Instant, ...]())]
        left = _MOST_INSTANTS
        while waiting and left > 0:
            graph, taken = waiting.pop()
            if len(taken) == len(of_units):
                return graph
            for instant in reversed(of_units[len(taken)]):
                left -= 1
                met = [pair for one in taken for pair in ((one.behind, instant.before), (instant.behind, one.before))]
                around = graph.around(observed, instant)
                allowed = around and around.with_pairs((n, m) for n, m in met if n is not None and m is not None)
                if allowed is not None:
                    waiting.append((allowed, (*taken, instant)))
        return None

    def order(self) -> list[int]:
        """Return the events in an order that the graph allows: as recorded where it may be, else as early as is asked for."""
        numbers = range(len(self.held))
        wanted = [each.wanted for each in self.held]
        urgent = [min(wanted[m] for m in numbers if m == n or self.after[n] >> m & 1) for n in numbers]
        found: list[int] = []
        left = set(numbers)
        while left:
            behind = 0
            for n in left:
                behind |= self.after[n]
            found.append(min((n for n in left if not behind >> n & 1), key=lambda n: (urgent[n], wanted[n], n)))
            left.remove(found[-1])
        return found
