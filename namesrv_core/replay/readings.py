"""What was read of the last answer to a question: it stands until something changes that the answer was held against."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from namesrv_core.asking.shown import Shown, ShownCluster, ShownTopics
from namesrv_core.machine.draft import NOTHING_CERTAIN, Certainty, Step
from namesrv_core.machine.events import AnswerObserved
from namesrv_core.machine.kv import ORDER_TOPIC_CONFIG
from namesrv_core.machine.past import ANY, Entity, Mark, Past
from namesrv_core.machine.profile import Namesrv
from namesrv_core.machine.question import Answer
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import LiveKey
from namesrv_core.machine.versions import Part


class Evidence(NamedTuple):
    """What an answer makes known; `listed`: the topics of a complete list."""

    marks: tuple[Mark, ...] = ()
    listed: frozenset[str | None] | None = None


class Difference(NamedTuple):
    """A row that the answer shows otherwise than the registry has it; None: it is not there."""

    entity: Entity
    held: object | None
    shown: object | None


class Read:
    """What was read of an answer; it stands until a part of the registry changes that the answer was held against.

    `differences`: what it shows otherwise than the registry has it; `marks`: what it makes known; None: not looked for yet.
    `taught`: what it does where nothing differs, as often as it comes. `members`: the live keys of the addresses shown, and
    whether they have a live entry that is known of. `until_ms`: so long differences and marks hang on nothing but the registry,
    or longer if these have beaten since. `learned_at`: the last doubt there was when all that the answer shows was noted as
    known; None: it was not.
    """

    __slots__ = (
        *("answered", "differences", "learned_at", "marks", "members", "namesrv", "shown", "since", "taught"),
        "until_ms",
    )

    def __init__(self, answered: Answer, namesrv: Namesrv, shown: Shown, since: int) -> None:
        self.answered, self.namesrv, self.shown, self.since = answered, namesrv, shown, since
        self.differences: list[Difference] | None = None
        self.marks: tuple[Mark, ...] | None = None
        self.taught: Step | None = None
        self.members: dict[LiveKey, bool] = {}
        self.until_ms = math.inf
        self.learned_at: int | None = None

    def stands(self, registry: Registry, past: Past, event: AnswerObserved, namesrv: Namesrv) -> bool:
        """Return whether the same is to be read of another answer to the same question."""
        stands = (
            event.answered == self.answered
            and namesrv is self.namesrv
            and past.versions.stand_since(self.since, _parts(event.question.subject, self.shown))
            and (past.now_ms <= self.until_ms or self._lasts(registry, past))
        )
        if stands:
            self.since = past.versions.number
        return stands

    def _lasts(self, registry: Registry, past: Past) -> bool:
        """Return whether the members that only beat have beaten since, so that their leases may last; note how long."""
        if self.until_ms == -math.inf or any(
            has_live_entry(registry, past, key) is not has for key, has in self.members.items()
        ):
            return False
        silent = (past.silent_until_ms(key) for key, has in self.members.items() if not has)
        self.until_ms = min(silent, default=math.inf) + self.namesrv.scan_period_ms
        return past.now_ms <= self.until_ms


def has_live_entry(registry: Registry, past: Past, key: LiveKey) -> bool:
    """Return whether there is a live entry under `key`, of which something is known.

    One without a mark is from before a gap: an answer that shows its address says nothing of it.
    """
    return key in registry.broker_live_table and past.has_mark("broker_live", *key)


def _parts(topic: str | None, shown: Shown) -> Iterator[Part]:
    """Yield the parts of the registry that an answer is held against."""
    if isinstance(shown, ShownTopics):
        yield ("topic_queue_table",)
    elif isinstance(shown, ShownCluster):
        yield from (("broker_addr_table",), ("cluster_addr_table",), ("broker_live_table",))
    else:
        yield from (("topic_queue_table", topic), ("topic_queue_mapping_info_table", topic))
        yield from (("filter_server_table",), ("kv_config_table", ORDER_TOPIC_CONFIG))
        for name in {**shown.queue_datas, **shown.groups}:
            yield ("broker_addr_table", name)
        for group in shown.groups.values():
            for _, addr in group.broker_addrs:
                yield ("broker_live_table", addr)


def rows_known(marks: Iterable[Mark]) -> set[Entity]:
    """Return the rows that marks make known by their own keys."""
    return {entity for entity, known in marks if known and entity.one is not ANY and entity.other is not ANY}


def certainty_of(known: Iterable[Entity], begun: Iterable[Entity] = ()) -> Certainty:
    """Return what is known, and was before the event, as rows of histories."""
    rows = Certainty(frozenset(map(_row_key, known)), frozenset(map(_row_key, begun)))
    return rows if rows.known or rows.begun else NOTHING_CERTAIN


def _row_key(entity: Entity) -> tuple[str, tuple[object, ...]]:
    return entity.kind, (entity.one, entity.other)
