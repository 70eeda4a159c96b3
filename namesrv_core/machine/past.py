"""How much of a name server's registry is known when its recording began in the middle of its life.

The registry then is a best guess, and the `Past` beside it says which rows are reliable. It keeps marks on keys and on
patterns of keys: known, or become doubtful. The later mark counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS
from namesrv_core.machine.tables import LiveKey


class Wildcard(Enum):
    """Stands for every value of a part of a key."""

    ANY = "any"

    __hash__ = object.__hash__  # it is in most keys, and Enum hashes by name, which is slow


ANY = Wildcard.ANY
Part = str | int | None | Wildcard
# Kinds of entities: the histories by name, and two kinds without rows of their own.
GROUP = "group"  # (broker name, CLUSTER or ACTING): fields of a group beside its members
CLUSTER, ACTING = "cluster", "acting"
SETTLED = "settled"  # a live key that cannot go without a recorded event
ROUTE_KINDS = (
    "topic_queue",
    "broker_addr",
    "cluster_addr",
    "broker_live",
    "filter_server",
    "topic_queue_mapping",
    GROUP,
    SETTLED,
)


class Entity(NamedTuple):
    """Something that is known or not: a row of a history by its key, or an entity of a kind without rows."""

    kind: str
    one: Part
    other: Part


def as_text(part: object) -> str | None:
    """Return a part of a key as a name or an address; None for null, a number or ANY."""
    return part if isinstance(part, str) else None


class Mark(NamedTuple):
    """`entity`, which may hold ANY, has become known (or, if not `known`, doubtful)."""

    entity: Entity
    known: bool = True


class Fact(NamedTuple):
    """One row of a `Past`, as carried from one day to the next.

    | what | entity | number |
    |---|---|---|
    | known, doubted | the marked entity | when, as a serial number |
    | listed | ("topic_queue", topic, ANY) of the last complete list | when, as a serial number |
    | beat | live key | last heartbeat, epoch milliseconds |
    | setting | name of a numeric attribute of the `Past` | its value |
    """

    what: str
    entity: Entity
    number: int


TablePart = tuple[str | None, ...]
"""A whole table, or its rows with one key: a topic, a broker name, an address ..."""
_Change = tuple[str, tuple[str | None, ...], object | None]  # as `registry.Change`


def parts_changed(change: _Change) -> Iterator[TablePart]:
    """Yield the parts that a change touches."""
    table, key, _ = change
    yield (table,)
    yield (table, key[1] if table == "broker_live_table" else next(iter(key), None))


class Versions:
    """When each part of a registry last changed. `number`: how often the registry changed."""

    def __init__(self) -> None:
        self.number = 0
        self._changed: dict[TablePart, int] = {}

    def note(self, changes: Iterable[_Change]) -> None:
        """Note changes that happen at once."""
        self.number += 1
        for change in changes:
            for part in parts_changed(change):
                self._changed[part] = self.number

    def unchanged_since(self, number: int, parts: Iterable[TablePart]) -> bool:
        """Return whether none of `parts` has changed since change `number`."""
        return number == self.number or all(self._changed.get(part, 0) <= number for part in parts)


class Past:
    """What is known at this point of the replay, by key. At first: nothing."""

    def __init__(self, from_ms: int) -> None:
        """`from_ms`: when the recording began (epoch milliseconds)."""
        self.from_ms = from_ms
        self.longest_lease_ms = BROKER_CHANNEL_EXPIRED_MS
        self.now_ms = from_ms
        self.is_logged: bool | int = False  # the source is the server's own log: changes, but no heartbeats
        self.heard_from_ms = from_ms  # since when brokers' requests are recorded, not only answers
        self.last_effect_ms = from_ms - 1  # of an event that changed something, or may have
        self.settle_ms = from_ms + self.longest_lease_ms  # when to look next for members that must have gone
        self.phase_known: bool | int = False  # whether it is known when the periodic scan runs
        self.complete_ms = 0  # since when the routes are known completely; 0: they are not
        self.beats: dict[LiveKey, int] = {}  # last heartbeats of live keys that are not known
        self._known: dict[Entity, int] = {}
        self._doubted: dict[Entity, int] = {}
        self._doubted_others: dict[str, set[Part]] = {}
        self._listed: frozenset[str | None] = frozenset()
        self._listed_stamp = 0
        self._stamp = 0
        self.last_doubt = 0  # serial number of the last doubt
        self.turned: set[Entity] = set()  # entities that became known or doubtful since this set was last emptied
        self.versions = Versions()  # of the registry beside it
        self.readings: dict[object, Any] = {}  # by question, the reading of its last answer (`replay.loop`)
        self.groups_read: dict[str | None, tuple[Any, Any]] = {}  # by broker name, the group in such answers

    def knows(self, kind: str, one: Part, other: Part) -> bool:
        """Return whether the row under this key, or its absence, is known. ANY: keys that were never marked alone."""
        entities = ((kind, one, other), (kind, one, ANY), (kind, ANY, other), (kind, ANY, ANY))
        known = self._latest(self._known, entities)
        if kind == "topic_queue" and one not in self._listed:
            known = max(known, self._listed_stamp)
        return known > self.last_doubt or (known > 0 and known > self._latest(self._doubted, entities))

    @staticmethod
    def _latest(stamps: Mapping[Any, int], entities: tuple[tuple[str, Part, Part], ...]) -> int:
        get, (a, b, c, d) = stamps.get, entities
        return max(get(a, 0), get(b, 0), get(c, 0), get(d, 0))

    def has_mark(self, kind: str, one: Part, other: Part) -> bool:
        """Return whether the row under this key is known, or was ever marked known or doubtful by its own key."""
        entity = Entity(kind, one, other)
        return entity in self._known or entity in self._doubted or self.knows(kind, one, other)

    def knows_all(self, kind: str, one: Part) -> bool:
        """Return whether all rows under `one` are known, present and absent."""
        others = (*self._doubted_others.get(kind, ()), ANY)
        return all(self.knows(kind, one, other) for other in others)

    def note(self, marks: Iterable[Mark]) -> None:
        """Take `marks` in order."""
        for entity, known in marks:
            if known and self._known.get(entity, 0) > self.last_doubt:
                continue  # nothing new
            if not known or ANY in entity or not self.knows(*entity):
                self.turned.add(entity)
            self._stamp += 1
            if known:
                self._known[entity] = self._stamp
            else:
                self._doubted[entity] = self.last_doubt = self._stamp
                self._doubted_others.setdefault(entity.kind, set()).add(entity.other)

    def new_among(self, keys: Iterable[tuple[str, Part, Part]]) -> list[tuple[str, Part, Part]]:
        """Return those of `keys` (parts of an `Entity`) whose own mark is missing or older than the last doubt."""
        stamps: Mapping[Any, int] = self._known
        return [key for key in keys if stamps.get(key, 0) <= self.last_doubt]

    def note_listed(self, topics: frozenset[str | None]) -> None:
        """Note that exactly `topics` have rows in the topic table. Every other topic is then known to have none."""
        if topics == self._listed and self._listed_stamp > self.last_doubt:
            return  # nothing new
        if topics != self._listed or not self._listed_stamp:
            self.turned.add(Entity("topic_queue", ANY, ANY))
        for topic in topics - self._listed:
            entity = Entity("topic_queue", topic, ANY)
            self._known[entity] = max(self._known.get(entity, 0), self._listed_stamp)
        self._stamp += 1
        self._listed, self._listed_stamp = topics, self._stamp

    def knows_all_topics(self) -> bool:
        """Return whether the topic table is known completely."""
        return self._listed_stamp > 0 and all(self.knows_all("topic_queue", topic) for topic in (*self._listed, ANY))

    @property
    def hears(self) -> bool:
        """Return whether requests were recorded. With answers or a log only, a broker's silence means nothing."""
        return not self.is_logged and (self.last_effect_ms >= self.from_ms or self.complete_ms > 0 or bool(self.beats))

    def dump(self) -> Iterator[Fact]:
        """Yield the content as facts, for `load`."""
        listed = (Entity("topic_queue", topic, ANY) for topic in self._listed)
        held: dict[str, Mapping[Entity, int]] = {
            "setting": {Entity(name, None, None): int(getattr(self, name)) for name in _SETTINGS},
            "known": self._known,
            "doubted": self._doubted,
            "listed": dict.fromkeys(listed, self._listed_stamp),
            "beat": {Entity("broker_live", *key): beat_ms for key, beat_ms in self.beats.items()},
        }
        for what, numbers in held.items():
            yield from (Fact(what, entity, number) for entity, number in numbers.items())

    @classmethod
    def load(cls, facts: Iterable[Fact]) -> Past:
        """Return the past whose facts `dump` yielded."""
        past, held = cls(0), defaultdict[str, dict[Entity, int]](dict)
        for what, entity, number in facts:
            held[what][entity] = number
        for entity, number in held["setting"].items():
            setattr(past, entity.kind, number)
        past._known, past._doubted = held["known"], held["doubted"]
        past.last_doubt = max(past._doubted.values(), default=0)
        for entity in past._doubted:
            past._doubted_others.setdefault(entity.kind, set()).add(entity.other)
        past._listed = frozenset(as_text(entity.one) for entity in held["listed"])
        past.beats = {
            LiveKey(as_text(one), as_text(other)): beat_ms for (_, one, other), beat_ms in held["beat"].items()
        }
        return past


_SETTINGS = (
    "from_ms",
    "is_logged",
    "heard_from_ms",
    "longest_lease_ms",
    "last_effect_ms",
    "settle_ms",
    "phase_known",
    "complete_ms",
    "_stamp",
    "_listed_stamp",
)
