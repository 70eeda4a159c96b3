"""What the maps of a fresh process are like: nothing of the old ones' size or kind goes on."""

from __future__ import annotations

from namesrv_core.asking.answers import kv_list_json
from namesrv_core.machine import events
from namesrv_core.machine.java_map import JavaMap, string_map
from namesrv_core.machine.profile import V4_9_7, V5_4_0, Namesrv
from namesrv_core.machine.registry import Change, Registry
from namesrv_core.replay.loop import take


def test_a_map_that_grew_is_loaded_into_a_fresh_one() -> None:
    """200 keys make a namespace's map 512 buckets; a process that loads the twelve that are left has 16, and their order."""
    namesrv = Namesrv(V5_4_0)
    registry = Registry(V5_4_0)
    keys = [f"key{number}" for number in range(200)]
    for key in keys:
        take(registry, events.PutKvConfig("n", key, "v"), 0, namesrv)
    for key in keys[12:]:
        take(registry, events.DeleteKvConfig("n", key), 1, namesrv)
    left, before = registry.kv_config_table["n"], kv_list_json(registry, "n", namesrv)
    assert left.capacity == 512
    take(registry, events.NamesrvStarted(), 2, namesrv)
    loaded: JavaMap[str | None, str] = string_map()
    for name in left.java_keys():
        loaded.put(name, "v")
    assert registry.kv_config_table["n"] == left
    assert registry.kv_config_table["n"].capacity == 16
    assert registry.kv_config_table["n"].java_keys() == loaded.java_keys()
    assert kv_list_json(registry, "n", namesrv) != before


def test_many_namespaces_are_loaded_into_a_map_of_their_number() -> None:
    """HashMap.putAll into an empty map takes room for what comes, less than 16 buckets too; one without entries stays fresh."""
    registry = Registry(V5_4_0)
    registry.restart(V5_4_0)
    assert registry.kv_config_table.capacity == 16
    for number, capacity in ((1, 2), (5, 8), (6, 16), (12, 32)):
        while len(registry.kv_config_table) < number:
            name = f"n{len(registry.kv_config_table)}"
            take(registry, events.PutKvConfig(name, "k", "v"), 0, Namesrv(V5_4_0))
        registry.restart(V5_4_0)
        assert (len(registry.kv_config_table), registry.kv_config_table.capacity) == (number, capacity)


def test_after_an_upgrade_in_place_names_of_a_cluster_enter_as_in_the_new_release() -> None:
    """4.9.7 computes a cluster's set into its map, at the head of the bucket; 5.4.0 puts it behind, and the other way round."""
    for old, new in ((V4_9_7, V5_4_0), (V5_4_0, V4_9_7)):
        registry, fresh = Registry(old), Registry(new)
        registry.restart(new)
        for one in (registry, fresh):
            one.apply([Change("cluster_addr_table", (cluster, "a"), value=True) for cluster in ("Aa", "BB")], 0)
        assert registry.cluster_addr_table.java_keys() == fresh.cluster_addr_table.java_keys()
        assert Registry(old).cluster_addr_table.computes is not fresh.cluster_addr_table.computes
