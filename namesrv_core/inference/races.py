"""Races: pairs of events whose order the wire does not show.

The name server handles requests in one pool of threads and the end of connections in another. It removes a broker in
two steps: it looks the broker up and then, under another lock, removes it (5.x: in a batch on a thread of its own). An
event that arrives while another one is under way may take effect before it, after it, or in between.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from namesrv_core.history.verification import Observed
from namesrv_core.machine import events
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.schedule import ScanSchedule
from namesrv_core.machine.step import live_key_of
from namesrv_core.machine.tables import MASTER_ID, LiveKey
from namesrv_core.replay.loop import TimedEvent, is_unknown

# An event this soon after another races with it.
# Measured: one-way requests within 2 ms of a close, batches up to 1 ms after their submission.
LAG_NS = 10_000_000
# A broker's removal may lag this long after the end of its connection.
# Measured: 73 ms to the name server's log, more than 51 ms to a registration that met it; both on busy machines.
REMOVAL_LAG_NS = 100_000_000


# At most this many brokers of one connection are tried as the one that an event found.
_MOST_FOUND = 8

Owners: TypeAlias = "Mapping[str | None, Mapping[LiveKey, str | None]]"


Items = TypeVar("Items", TimedEvent, Observed)


class Named(Generic[Items]):
    """Events or answers in order of `seq`, found by what they are about; None is what concerns everybody.

    In a storm, thousands of others are near a race: only those about the same are looked at.
    """

    def __init__(self, items: Sequence[Items], about: Callable[[Items], Iterable[Hashable]]) -> None:
        self.items: Sequence[Items] = items
        self._numbers = defaultdict[Hashable, list[int]](list)
        for number, item in enumerate(items):
            for node in about(item):
                self._numbers[node].append(number)

    def of(self, nodes: Iterable[Hashable], span: tuple[int, int]) -> list[Items]:
        """Return the items about any of `nodes` with a position after the first of `span`, up to the second, in order."""
        first, last = (bisect_right(self.items, seq, key=lambda item: item.seq) for seq in span)
        found = (self._numbers.get(node, ()) for node in nodes)
        numbers = {number for of in found for number in of[bisect_left(of, first) : bisect_left(of, last)]}
        return [self.items[number] for number in sorted(numbers)]


class Day(NamedTuple):
    """One name server's day, with the registry at its start. `observations` is called only if something races.

    `timed_events`: in the order of `seq`. `received`: by event id, the position of a request's last byte. `answered`:
    ids of the requests that got a response. Scans run from `from_seq`, the beginning of the day, until `until_seq`.
    """

    start: Registry
    timed_events: Sequence[TimedEvent]
    received: Mapping[str, int]
    answered: frozenset[str]
    observations: Callable[[], Sequence[Observed]]
    namesrv: Namesrv
    schedule: ScanSchedule
    namesrv_id: str
    until_seq: int
    from_seq: int = 0


class Move(NamedTuple):
    """An event that takes effect elsewhere than recorded: at `seq`, before (-1) or after (1) the event there.

    `looked_up`: see ChannelDestroyed.
    """

    event_id: str
    seq: int
    side: int
    looked_up: LiveKey | None = None


class Alternative(NamedTuple):
    """One of the possible orders, in words and as moves; the default order moves nothing."""

    words: str
    moves: tuple[Move, ...] = ()


class Race(NamedTuple):
    """Events whose order is open, in the default order, and the possible orders, the default first.

    `is_far`: any other order is so unlikely that the race is reported only if answers prove one. `received`: position at
    which the first of its requests had arrived, if answers from there on may show its effect.
    """

    kind: str
    timed_events: tuple[TimedEvent, ...]
    alternatives: tuple[Alternative, ...]
    is_far: bool = False
    received: int | None = None

    @property
    def seq(self) -> int:
        """Return the position of its first event."""
        return self.timed_events[0].seq

    @property
    def span(self) -> tuple[int, int]:
        """Return the first and the last position of its events in any order, the first with `received` included."""
        moves = (move.seq for alternative in self.alternatives for move in alternative.moves)
        seqs = [*(timed.seq for timed in self.timed_events), *moves]
        return min([*seqs, self.received or seqs[0]]), max(seqs)

    def following(self, moved: Mapping[int, int]) -> Race:
        """Return it with its moves to where others were that have `moved` as moves to where these are now."""
        return self._replace(
            alternatives=tuple(
                one._replace(moves=tuple(move._replace(seq=moved.get(move.seq, move.seq)) for move in one.moves))
                for one in self.alternatives
            )
        )

    @property
    def decision_id(self) -> str:
        """Return the id of the decision on this race, 32 hex digits."""
        named = " ".join((self.kind, *(timed.event_id for timed in self.timed_events)))
        return hashlib.sha256(named.encode()).hexdigest()[:32]


def races_of(day: Day) -> list[Race]:
    """Return the races of a day by position."""
    owners = owners_of(day.namesrv, day.start, day.timed_events)
    found = [*_registrations_and_own_closes(day), *_ends_of_shared_channels(day, owners), *_overlapping(day, owners)]
    # Of orders that explain as much the first is taken: not by ids, which differ from one recording of a life to another.
    return sorted(found, key=lambda race: ([timed.seq for timed in race.timed_events], race.kind))


def _registrations_and_own_closes(day: Day) -> Iterator[Race]:
    """Yield races of a registration without response with the end of its connection soon after it."""
    last_close = {
        timed.event.channel_id: timed for timed in day.timed_events if type(timed.event) is events.ChannelDestroyed
    }
    for timed in day.timed_events:
        if type(timed.event) is not events.RegisterBroker or timed.event_id in day.answered:
            continue
        close = last_close.get(timed.event.channel_id)
        if close is not None and timed.seq < close.seq <= timed.seq + LAG_NS:
            default = Alternative("the registration, then the close")
            other = Alternative("the close, then the registration", (Move(timed.event_id, close.seq, 1),))
            yield Race("register_and_close", (timed, close), (default, other))


def _ends_of_shared_channels(day: Day, owners: Owners) -> Iterator[Race]:
    """Yield races of the two events that end a connection of several brokers; each takes down one broker that it finds.

    5.x looks the broker up at once and removes it in a batch: the second event may find the same one, and another stays. So may
    the end of a connection that a scan closes, beside the scan.
    """
    shared = {channel_id for channel_id, keys in owners.items() if len(keys) > 1}
    ends: dict[str | None, list[TimedEvent]] = {}
    for timed in day.timed_events:
        if type(timed.event) is events.ChannelDestroyed and timed.event.channel_id in shared:
            ends.setdefault(timed.event.channel_id, []).append(timed)
    for channel_id, (first, *others) in ends.items():
        of_scan = _tick_of(day, first) < first.seq
        second = first if of_scan else next((t for t in others if t.seq <= first.seq + LAG_NS), None)
        if second is None or not day.namesrv.at(first.seq).profile.batches_unregistrations:
            continue
        default = Alternative("the first removal, then the second event finds another broker")
        again = [
            Alternative(f"the second event finds {key.broker_addr} again", (Move(second.event_id, second.seq, 0, key),))
            for key in sorted(owners[channel_id], key=repr)[:_MOST_FOUND]  # names may be missing
        ]
        yield Race("ends_of_shared_channel", (first,) if second is first else (first, second), (default, *again))


def _overlapping(day: Day, owners: Owners) -> Iterator[Race]:
    """Yield races of two events on the same rows, the later of which had arrived before the earlier took effect."""
    first_close: dict[str | None, TimedEvent] = {}
    for timed in day.timed_events:
        if type(timed.event) is events.ChannelDestroyed:
            first_close.setdefault(timed.event.channel_id, timed)
    # A request that the release does not know is never answered: it would race with all until its connection ends.
    changing = [
        timed
        for timed in day.timed_events
        if type(timed.event) is events.ChannelDestroyed
        or (_touched(timed.event) and not is_unknown(timed.event, day.namesrv.at(timed.seq)))
    ]
    named = Named(changing, lambda timed: _written(timed.event, owners))
    for later in changing:
        if type(later.event) is events.ChannelDestroyed:
            continue
        met = _met(later.event, day.namesrv.at(later.seq))
        if _is_done_unseen(day, later):
            behind = named.of(met, (later.seq, later.seq + REMOVAL_LAG_NS))
            yield from _lagging_and_others(day, later, behind, owners)
        if later.event_id not in day.received:
            continue
        received = day.received[later.event_id]
        held = _held_at(day, received)
        for earlier in named.of(met, (held[0] - REMOVAL_LAG_NS - 1, later.seq - 1)):
            if type(earlier.event) is events.ChannelDestroyed:
                if first_close[earlier.event.channel_id] is earlier:
                    yield from _close_and_registration(day, earlier, later, received, held, owners)
            elif held[0] < earlier.seq < received:
                yield from _waiting_and_registration(day, earlier, later, held[1])
            elif earlier.seq >= received and _related(earlier.event, later.event, day.namesrv.at(later.seq)):
                default = Alternative("in the order of their responses")
                others = [Alternative("the other way round", (Move(later.event_id, earlier.seq, -1),))]
                until = _held_at(day, earlier.seq)[1]
                if until > earlier.seq and _is_done_unseen(day, earlier):
                    behind_all = Move(earlier.event_id, max(until, later.seq), 1)
                    others.append(Alternative("the other way round, behind all that waited", (behind_all,)))
                since = max(min(day.received.get(earlier.event_id, received), received), earlier.seq - REMOVAL_LAG_NS)
                yield Race("overlapping_requests", (earlier, later), (default, *others), received=since)


def _is_done_unseen(day: Day, request: TimedEvent) -> bool:
    """Return whether no response tells when a request was done: it got none, or it is an unregistration of 5.x."""
    is_removal = isinstance(request.event, events.UnregisterBroker)
    batches = is_removal and day.namesrv.at(request.seq).profile.batches_unregistrations
    return batches or request.event_id not in day.answered


def _lagging_and_others(day: Day, lagging: TimedEvent, behind: Sequence[TimedEvent], owners: Owners) -> Iterator[Race]:
    """Yield races of a request with what comes behind it, on its connection, too, if no response tells when it was done.

    That is one without response, which waits for a thread, and in 5.x an unregistration. `behind`: what took effect about the
    same rows until `REMOVAL_LAG_NS` later. For the end of its own connection see `_registrations_and_own_closes`, for what waited
    during a hold see `_waiting_and_registration`.
    """
    event = lagging.event
    default = Alternative("in the order in which they came")
    for other in behind:
        if type(other.event) is not events.ChannelDestroyed:
            received = day.received.get(other.event_id, 0)
            kind, races = "overlapping_requests", _related(event, other.event, day.namesrv.at(lagging.seq))
            races &= received > lagging.seq
            races &= _held_at(day, received)[0] >= lagging.seq or not _are_of_one(event, other.event)
        elif isinstance(event, (events.RegisterBroker, events.UnregisterBroker)):
            kind, channel_id = "register_and_close", other.event.channel_id
            races = event.broker_name in owners.get(channel_id, {}).values()
            races &= channel_id != getattr(event, "channel_id", None)
        else:
            continue
        if races:
            late = Alternative("the other way round", (Move(lagging.event_id, other.seq, 1),))
            yield Race(kind, (lagging, other), (default, late), is_far=True)


def _held_at(day: Day, seq: int) -> tuple[int, int]:
    """Return the first hold in which, or soon after which, `seq` lies; (`seq`, `seq`) if there is none."""
    holds = day.schedule.holds
    number = bisect_left(holds, seq - REMOVAL_LAG_NS, key=lambda held: held[1])
    return holds[number] if number < len(holds) and holds[number][0] < seq else (seq, seq)


def _waiting_and_registration(day: Day, waiting: TimedEvent, later: TimedEvent, until: int) -> Iterator[Race]:
    """Yield the race of two requests of a broker of which the earlier waits for the lock, and no response shows when it is done.

    That is an unregistration, which is answered before, or a one-way registration; one of the two is a registration.
    """
    is_removal, removes = (isinstance(timed.event, events.UnregisterBroker) for timed in (waiting, later))
    if not _are_of_one(waiting.event, later.event) or (removes if is_removal else waiting.event_id in day.answered):
        return
    kind = "removal_and_registration" if is_removal else "overlapping_requests"
    name = "unregistration" if is_removal else "one-way registration"
    what = "unregistration" if removes else "registration"
    does = "undoes it" if is_removal or removes else "replaces it"
    default = Alternative(f"the {name}, then the {what}")
    others = [
        Alternative(f"the {what}, then the {name}, which {does} {words}", (Move(waiting.event_id, at, 1),))
        for at, words in {later.seq: "at once", max(until, later.seq): "behind all that waited"}.items()
    ]
    last = Move(waiting.event_id, later.seq, -1)
    others.append(Alternative(f"the {name} when the lock is free, just before the {what}", (last,)))
    yield Race(kind, (waiting, later), (default, *others), is_far=True)


def _are_of_one(one: events.Event, other: events.Event) -> bool:
    """Return whether two events are registrations or unregistrations of one broker."""
    changes = (events.RegisterBroker, events.UnregisterBroker)
    return isinstance(one, changes) and isinstance(other, changes) and one.broker_addr == other.broker_addr


def _close_and_registration(
    day: Day, close: TimedEvent, later: TimedEvent, received: int, held: tuple[int, int], owners: Owners
) -> Iterator[Race]:
    """Yield the race of a removal under way with a registration of its broker over a new connection, or of its name."""
    if type(later.event) is not events.RegisterBroker or type(close.event) is not events.ChannelDestroyed:
        return
    key, closed = key_of(day.namesrv, later.event), owners.get(close.event.channel_id, {})
    if later.event.channel_id == close.event.channel_id:
        return
    before = Move(later.event_id, _tick_of(day, close) - 1, -1)
    if received > close.seq:  # then it is the close that was late
        before = Move(close.event_id, later.seq, 1)
    first = Alternative("the registration, then the close", (before,))
    alternatives = [Alternative("the close with the removal, then the registration")]
    if key in closed:
        at = max(close.seq, received)
        between = (Move(later.event_id, at, -1), Move(close.event_id, at, 0, key))
        alternatives.append(Alternative("the registration between the close and the removal, which undoes it", between))
        alternatives += [first] * (received <= close.seq)
        if held[0] < received:
            behind = Move(close.event_id, max(held[1], later.seq), 1, key)
            alternatives.append(
                Alternative("the registration, which the removal undoes behind all that waited", (behind,))
            )
    else:
        alternatives.append(first)
    is_far = key not in closed or received > close.seq + LAG_NS
    yield Race("removal_and_registration", (close, later), tuple(alternatives), is_far)


def _tick_of(day: Day, close: TimedEvent) -> int:
    """Return the scan that may have closed a connection; none: the position behind the close."""
    tick = day.schedule.first_tick(close.seq - LAG_NS, 0)
    return tick if tick is not None and tick < close.seq else close.seq + 1


def owners_of(namesrv: Namesrv, registry: Registry, timed_events: Iterable[TimedEvent]) -> Owners:
    """Return, by channel, the live keys registered over it, with their broker names."""
    owners: dict[str | None, dict[LiveKey, str | None]] = {}
    for key, live in registry.broker_live_table.items():
        owners.setdefault(live.channel_id, {})[key] = live.broker_name
    for timed in timed_events:
        if isinstance(timed.event, events.RegisterBroker):
            owned = owners.setdefault(timed.event.channel_id, {})
            owned[key_of(namesrv, timed.event)] = timed.event.broker_name
    return owners


def key_of(
    namesrv: Namesrv, event: events.RegisterBroker | events.BrokerHeartbeat | events.QueryDataVersion
) -> LiveKey:
    """Return the key of the live entry that a heartbeat renews."""
    return live_key_of(namesrv, event.cluster_name, event.broker_addr)


def _related(one: events.Event, other: events.Event, namesrv: Namesrv) -> bool:
    """Return whether two events touch the same rows, or, before 4.9.4, the same lists of queue data."""
    if _touched(one) & _touched(other):
        return True
    if isinstance(one, events.RegisterBroker) and isinstance(other, events.RegisterBroker):
        listed = [of.topics.names for of in (one, other) if of.topics and of.broker_id == MASTER_ID]
        return namesrv.profile.lists_queue_data and len(listed) > 1 and not listed[0].isdisjoint(listed[1])
    return any(
        isinstance(first, events.RegisterBroker)
        and isinstance(second, (events.DeleteTopic, events.RegisterTopic))
        and first.topics is not None
        and second.topic in first.topics.names
        for first, second in ((one, other), (other, one))
    )


_Row: TypeAlias = "tuple[str | None, ...]"
_TABLES, _TOPIC_REQUESTS = ("topic tables",), ("topic requests",)


def _written(event: events.Event, owners: Owners) -> set[_Row]:
    """Return the rows under which later events find an event: those that it writes, or a close may remove."""
    if type(event) is events.ChannelDestroyed:
        closed = owners.get(event.channel_id, {})
        return {("live", *key) for key in closed} | {("broker", name) for name in closed.values()}
    if isinstance(event, events.RegisterBroker):
        return _touched(event) | {_TABLES}
    return _touched(event) | (
        {_TOPIC_REQUESTS} if isinstance(event, (events.DeleteTopic, events.RegisterTopic)) else set()
    )


def _met(event: events.Event, namesrv: Namesrv) -> set[_Row]:
    """Return the rows under which `_written` has the events that a request may race with."""
    if isinstance(event, events.RegisterBroker):
        lists = {_TABLES} if namesrv.profile.lists_queue_data else set()
        return _touched(event) | {("live", *key_of(namesrv, event)), _TOPIC_REQUESTS} | lists
    return _touched(event) | ({_TABLES} if isinstance(event, (events.DeleteTopic, events.RegisterTopic)) else set())


def _touched(event: events.Event) -> set[_Row]:
    """Return the rows that a request writes, by kind and name; empty for any other event."""
    if isinstance(event, (events.RegisterBroker, events.UnregisterBroker)):
        return {("broker", event.broker_name), ("addr", event.broker_addr)}
    if isinstance(event, (events.WipeWritePerm, events.AddWritePerm)):
        return {("broker", event.broker_name)}
    if isinstance(event, events.RegisterTopic):
        return {("topic", event.topic), *(("broker", name) for name, _ in event.queue_datas or ())}
    if isinstance(event, events.DeleteTopic):
        return {("topic", event.topic)}
    if isinstance(event, (events.PutKvConfig, events.DeleteKvConfig)):
        return {("kv", event.namespace, event.key)}
    return set()
