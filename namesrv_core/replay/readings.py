"""What was read of the last answer to a question: each piece stands until it changes, in the answer or in the registry."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from namesrv_core.asking.shown import Shown, ShownCluster, ShownRoute, ShownTopics
from namesrv_core.machine.codes import Answer
from namesrv_core.machine.draft import NOTHING_CERTAIN, Certainty
from namesrv_core.machine.past import ANY, Entity, Mark, Past, TablePart
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.registry import Change, Registry
from namesrv_core.machine.rows import KvValue
from namesrv_core.machine.step import ORDER_TOPIC_CONFIG


class Evidence(NamedTuple):
    """What an answer makes known; `listed`: the topics of a complete list."""

    marks: tuple[Mark, ...] = ()
    listed: frozenset[str | None] | None = None


class Difference(NamedTuple):
    """A row that the answer shows otherwise than the registry has it; None: it is not there."""

    entity: Entity
    held: object | None
    shown: object | None


class Whole(Enum):
    """A piece of an answer that is no group of a route: all that a route shows beside its groups, or an answer in one piece."""

    WHOLE = "whole"


WHOLE = Whole.WHOLE
Piece = str | None | Whole
"""What of an answer is compared again by itself: a group of a route, by its broker name; or all else."""


class Read:
    """What the last answer to a question says, held against the registry piece by piece.

    `stale`: the pieces that have changed, in the answer or in the registry, since they were compared; `differing`: what the others
    show otherwise than the registry has it; `unlearned`: the pieces of which not all that they make known is noted, or was doubted
    since (after the doubt `learned_at` any may have been). `acting`: the groups that may have an acting master, which hang on
    more than the registry; `waiting`: those with a member that has no live entry, and when that settles, if it beats no more: at
    `until_ms` the first of them. `known`: the difference in something known that was found last.
    """

    __slots__ = (
        "_names_at",
        "acting",
        "answered",
        "differing",
        "known",
        "learned_at",
        "namesrv",
        "shown",
        "since",
        "stale",
        "unlearned",
        "until_ms",
        "waiting",
    )

    def __init__(self, answered: Answer, namesrv: Namesrv, shown: Shown, past: Past) -> None:
        self.answered, self.namesrv, self.shown, self.since = answered, namesrv, shown, past.versions.number
        self.stale, self.unlearned = set(pieces_of(shown)), set(pieces_of(shown))
        self.differing: dict[Piece, tuple[Difference, ...]] = {}
        self.acting: set[Piece] = set()
        self.waiting: dict[Piece, int] = {}
        self.until_ms = math.inf
        self.learned_at = past.last_doubt
        self.known: Difference | None = None
        self._names_at: dict[str | None, list[Piece]] | None = None

    def say(self, answered: Answer, shown: Shown) -> None:
        """Take another answer to the same question: what it says anew is to be compared, and learned."""
        old, self.answered, self.shown, self.known, self._names_at = self.shown, answered, shown, None, None
        if not (isinstance(shown, ShownRoute) and isinstance(old, ShownRoute)):
            self._touch((WHOLE,))
            return
        moved: set[Piece] = {name for name, group in shown.groups.items() if old.groups.get(name) != group}
        moved |= old.groups.keys() - shown.groups.keys()
        moved |= {name for name, data in shown.queue_datas.items() if old.queue_datas.get(name) != data}
        moved |= old.queue_datas.keys() - shown.queue_datas.keys()
        moved.add(WHOLE)
        self._touch(moved)
        for name in moved - shown.queue_datas.keys() - {WHOLE}:
            for pieces in (self.stale, self.unlearned, self.acting):
                pieces.discard(name)
            self.differing.pop(name, None)
            self.waiting.pop(name, None)

    def follow(self, past: Past, topic: str | None) -> None:
        """Note which pieces have changed in the registry since they were compared, or may be seen otherwise by now."""
        if self.since != past.versions.number:
            for part in past.versions.changed_since(self.since):
                if part[0] == "topic_queue_table" and part[-1] != topic and isinstance(self.shown, ShownRoute):
                    continue  # nearly all of them
                if touched := self._touched(part, topic):
                    self._touch(touched)
            self.since = past.versions.number
        if self.learned_at != past.last_doubt:
            self.unlearned.update(pieces_of(self.shown))
            self.learned_at = past.last_doubt
        if past.now_ms > self.until_ms:
            self.unlearned |= self.waiting.keys()
        self.stale |= self.acting

    def _touched(self, part: TablePart, topic: str | None) -> Collection[Piece]:
        """Return the pieces of the answer that are held against a part of the registry."""
        shown, table, key = self.shown, part[0], part[-1]
        if isinstance(shown, ShownTopics):
            return (WHOLE,) if table == "topic_queue_table" else ()
        if isinstance(shown, ShownCluster):
            return (WHOLE,) if table in _OF_CLUSTERS else ()
        if len(part) == 1:
            return pieces_of(shown) if table == "filter_server_table" else ()
        if table == "broker_live_table":
            if self._names_at is None:
                self._names_at = {}
                for name, group in shown.groups.items():
                    for _, addr in group.broker_addrs if name in shown.queue_datas else ():
                        self._names_at.setdefault(addr, []).append(name)
            return self._names_at.get(key, ())
        if table == "broker_addr_table":
            return (key,) if key in shown.queue_datas else ()
        is_own = key == (ORDER_TOPIC_CONFIG if table == "kv_config_table" else topic)
        return (WHOLE,) if is_own and table in _OF_TOPIC else ()

    def _touch(self, pieces: Collection[Piece]) -> None:
        self.stale.update(pieces)
        self.unlearned.update(pieces)


def pieces_of(shown: Shown) -> Collection[Piece]:
    """Return the pieces of an answer."""
    return (*shown.queue_datas, WHOLE) if isinstance(shown, ShownRoute) else (WHOLE,)


_OF_CLUSTERS = ("broker_addr_table", "cluster_addr_table", "broker_live_table")
_OF_TOPIC = ("topic_queue_table", "topic_queue_mapping_info_table", "kv_config_table")


def entries_corrected(registry: Registry, namespace: str | None, shown: Mapping[str, str | None]) -> Iterator[Change]:
    """Yield what makes the KV entries of a namespace those that a list shows; one without a value is in no list, and stays."""
    held: Mapping[str | None, KvValue] = registry.kv_config_table.get(namespace) or {}
    if namespace not in registry.kv_config_table:
        yield Change("kv_config_table", (namespace, None), KvValue(None))
    listed: dict[str | None, KvValue] = {key: KvValue(text) for key, text in shown.items()}
    for key in dict.fromkeys((*held, *listed)):
        value, was = listed.get(key), held.get(key)
        if value != was and (value, was) != (None, KvValue(None)):
            yield Change("kv_config_table", (namespace, key), value)


def rows_known(marks: Iterable[Mark]) -> set[Entity]:
    """Return the rows that marks make known by their own keys."""
    return {entity for entity, known in marks if known and entity.one is not ANY and entity.other is not ANY}


def certainty_of(known: Iterable[Entity], begun: Iterable[Entity] = ()) -> Certainty:
    """Return what is known, and was before the event, as rows of histories."""
    rows = Certainty(frozenset(map(_row_key, known)), frozenset(map(_row_key, begun)))
    return rows if rows.known or rows.begun else NOTHING_CERTAIN


def _row_key(entity: Entity) -> tuple[str, tuple[object, ...]]:
    return entity.kind, (entity.one, entity.other)
