"""What responses tell about a past that was not recorded: the order configuration, and a slave's master."""

from __future__ import annotations

from namesrv_core.asking.answers import answer_to
from namesrv_core.asking.body_json import same_json
from namesrv_core.asking.shown import entries_shown
from namesrv_core.machine import events
from namesrv_core.machine.draft import Outcome, Step
from namesrv_core.machine.past import ANY, Entity, Mark
from namesrv_core.machine.register import live_key_of
from namesrv_core.machine.registry import Change, Registry
from namesrv_core.machine.rows import MASTER_ID
from namesrv_core.machine.step import ORDER_TOPIC_CONFIG, step
from namesrv_core.replay.belief import Belief
from namesrv_core.replay.readings import Evidence, entries_corrected


def assimilate_response(belief: Belief, event: events.ResponseObserved) -> Step:
    """Return what the response to a beat, which was just taken, corrects; `result` is its Evidence, if it is any.

    A registration is told the whole order configuration, and a slave its master; what the master's live entry is it is not. A
    version query is told of a live entry that it does not bring into being: that it is there, and its version, teaches nothing.
    """
    registry, past, namesrv = belief.registry, belief.past, belief.namesrv
    asked, answered = event
    expected = answer_to(asked, step(registry, asked, past.now_ms, namesrv), registry, namesrv)
    if isinstance(asked, events.QueryDataVersion):
        key = live_key_of(namesrv, asked.cluster_name, asked.broker_addr)
        is_unknown = (answered.body, answered.fields) != (expected.body, expected.fields) and not past.knows(
            "broker_live", *key
        )
        return Step(Outcome.UNKNOWN_PAST if is_unknown else Outcome.NO_EFFECT)
    if isinstance(asked, (events.WipeWritePerm, events.AddWritePerm)):  # how many topics of a broker name there are
        is_unknown = answered.fields != expected.fields and not past.knows_all_topics()
        return Step(Outcome.UNKNOWN_PAST if is_unknown else Outcome.NO_EFFECT)
    changes: list[Change] = []
    marks: list[Mark] = []
    unknown: list[bool] = []
    if answered.code != expected.code:  # whether a single topic is refused hangs on whether the id is there
        unknown.append(not past.knows("broker_addr", asked.broker_name, asked.broker_id))
    elif answered.fields != expected.fields:
        unknown.append(not _knows_master(belief, asked))
        changes += _master_shown(registry, asked, dict(answered.fields).get("masterAddr"))
        marks += [Mark(Entity("broker_addr", asked.broker_name, MASTER_ID))] if changes else []
    if not same_json(answered.body, expected.body, ordered=False):
        unknown.append(not past.knows_all("kv_config", ORDER_TOPIC_CONFIG))
    if not all(unknown):
        return Step(Outcome.NO_EFFECT)
    if answered.body is not None and (shown := entries_shown(answered)) is not None:
        changes += entries_corrected(registry, ORDER_TOPIC_CONFIG, shown)
        marks += [Mark(Entity("kv_config", ORDER_TOPIC_CONFIG, topic)) for topic in shown]
        marks.append(Mark(Entity("kv_config", ORDER_TOPIC_CONFIG, ANY)))
    outcome = Outcome.UNKNOWN_PAST if unknown else Outcome.NO_EFFECT
    return Step(outcome, tuple(changes), result=Evidence(tuple(marks)))


def _knows_master(belief: Belief, asked: events.RegisterBroker) -> bool:
    """Return whether it is known which master the group has, and whether that lives."""
    past, group = belief.past, belief.registry.broker_addr_table.get(asked.broker_name)
    addr = None if group is None else group.addr_of.get(MASTER_ID)
    key = live_key_of(belief.namesrv, asked.cluster_name, addr)
    return past.knows("broker_addr", asked.broker_name, MASTER_ID) and (
        addr is None or (past.knows("broker_live", *key) and belief.has_settled(key))
    )


def _master_shown(registry: Registry, asked: events.RegisterBroker, addr: str | None) -> list[Change]:
    """Return the change that gives the slave's group the master whose address it was told."""
    group = registry.broker_addr_table.get(asked.broker_name)
    if group is None or addr is None or group.addr_of.get(MASTER_ID) == addr:
        return []
    slaves = tuple(member for member in group.broker_addrs if member[0] != MASTER_ID)
    shown = group._replace(broker_addrs=((MASTER_ID, addr), *slaves))
    return [Change("broker_addr_table", (asked.broker_name,), shown)]
