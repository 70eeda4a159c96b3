"""How many buckets maps have when a day ends, from the day's slices alone, against a registry that took each event."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, Profile, Registry, take
from namesrv_core.history.intervals import Histories, Interval, MapCapacity
from namesrv_core.machine import events
from namesrv_core.machine.java_map import string_map
from namesrv_core.machine.profile import Capacities
from namesrv_core.machine.registry import TABLES
from namesrv_core.machine.tables import NestedTable, TopicConfig, TopicTable
from namesrv_day.arrow import empty, table_of
from namesrv_day.context import capacities_in
from namesrv_day.replay import history_rows
from namesrv_day.verify import map_capacities
from schemas import gold
from schemas.times import day_start_seq
from tests.day.plan_rows import DAY, NAMESRV

DAYS = [DAY + dt.timedelta(days=number) for number in range(3)]
NAMES = [None, *(f"broker-{number}" for number in range(40))]
SMALL = Capacities(topic=16, broker=16, cluster=16, live=16)


def happening(draw: Random, *, starts: bool) -> Iterator[events.Event]:
    """Crowds of brokers, clusters and keys of the configuration that come and go; topics go whole, processes start anew."""
    for _ in range(draw.randrange(8)):
        what = draw.choice(["joins", "joins", "leaves", "leaves", "topics", "put", "delete"] + ["starts"] * starts)
        topics, of_one = [f"t{number}" for number in draw.sample(range(40), 6)], draw.random() < 0.5
        for name in draw.sample(NAMES, 20):
            addr, cluster = f"{name}:1", "C" if of_one else f"cluster-{name}"
            if what == "joins":
                table = TopicTable([TopicConfig(topic, 4, 4, 6, 0) for topic in topics])
                yield events.RegisterBroker(cluster, addr, name, 0, None, None, table, ("f",), addr)
            elif what == "leaves":
                yield events.UnregisterBroker(cluster, addr, name, 0)
            elif what == "put":
                yield events.PutKvConfig(draw.choice("NNM"), f"key-{draw.randrange(40)}", "v")
            elif what == "delete":
                yield from (events.DeleteKvConfig("N", f"key-{key}") for key in draw.sample(range(40), 4))
        if what == "topics":
            yield from (events.DeleteTopic(f"t{number}", None) for number in draw.sample(range(40), 36))
        elif what == "starts":
            yield events.NamesrvStarted()


def grown(registry: Registry) -> set[MapCapacity]:
    """Return the maps of a registry that have more buckets than their keys need; of the namespaces nothing is told."""
    fresh, found = Registry(registry.profile), set[MapCapacity]()
    for table in TABLES:
        own = getattr(registry, table)
        maps: list[tuple[str | None, Any, Any]] = [(None, own, getattr(fresh, table))]
        if isinstance(own, NestedTable):
            maps += [(outer, inner, string_map()) for outer, inner in own.items()]
        found |= {
            MapCapacity(table, number > 0, outer, one.capacity)  # type: ignore[arg-type]  # a name of TABLES
            for number, (outer, one, empty_map) in enumerate(maps)
            if one.capacity > empty_map.capacity_of(len(one)) and (number or table != "kv_config_table")
        }
    return found


@pytest.mark.slow
@pytest.mark.parametrize("profile", [V4_9_7, V5_4_0], ids=lambda profile: profile.name)
def test_slices_tell_the_capacities_that_the_maps_have(profile: Profile) -> None:
    """Three days of crowds, with starts of the process or without: of each map as many buckets as in a registry that went on."""
    profile = replace(profile, capacities=SMALL)
    namesrv, seen = Namesrv(profile), set[tuple[str, bool]]()
    for seed in range(24):
        draw, registry, before = Random(seed), Registry(profile), empty(gold.MAP_CAPACITIES)
        carried: list[Interval] = []
        for day in DAYS:
            histories, closed, starts = Histories(carried), list[Interval](), list[int]()
            for number, event in enumerate(happening(draw, starts=seed % 2 == 0)):
                seq = day_start_seq(day) + 1 + number
                step = take(registry, event, seq // 1_000_000, namesrv)
                closed += histories.record(step.changes, seq=seq, event_id=f"e{seq}", at_us=seq // 1_000)
                starts += [seq] * isinstance(event, events.NamesrvStarted)
            carried = list(histories.open_intervals())
            slices = {
                table.name: history_rows(
                    table,
                    [one for one in (*closed, *carried) if f"{one.table}_history" == table.name],
                    {"namesrv_id": NAMESRV, "day": day},
                )
                for table in gold.HISTORY_TABLES
            }
            outcomes = ({"operation": "namesrv_started", "seq": seq} for seq in starts)
            slices[gold.EVENT_OUTCOMES.name] = table_of(outcomes, gold.EVENT_OUTCOMES)
            before = map_capacities(slices, before, namesrv, NAMESRV, day)
            rows = capacities_in(before)
            assert len(rows) == len({*rows})
            assert {*rows} == grown(registry), (seed, day)
            seen |= {(one.map_table, one.is_inner) for one in rows}
    outer = {table for table, is_inner in seen if not is_inner}
    assert outer == TABLES - {"kv_config_table", "topic_queue_mapping_info_table"}
    assert {table for table, is_inner in seen if is_inner} == {
        "topic_queue_table",
        "cluster_addr_table",
        "kv_config_table",
    }
