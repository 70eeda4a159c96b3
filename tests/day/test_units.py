"""Which nodes are one unit, and when a name server's day must not be split into units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namesrv_core import V4_9_7, V5_4_0, Namesrv
from namesrv_day.plan.units import (
    NO_ADDR,
    NO_KEY,
    SEVERAL_BROKERS,
    SEVERAL_CLUSTERS,
    Edge,
    components,
    must_stay_whole,
)


def fleet(brokers: int) -> list[Edge]:
    """Give brokers that share nothing: each a name, an address and a channel of its own."""
    return [
        edge
        for n in range(brokers)
        for edge in ((f"a:10.1.0.{n}", f"n:broker-{n}"), (f"a:10.1.0.{n}", f"c:channel-{n}"))
    ]


TWO_NAMES = [("a:10.1.0.0", "n:other")]
TWO_ADDRESSES = [("a:10.2.0.1", "n:slave"), ("a:10.2.0.1", "c:channel-0")]


@pytest.mark.parametrize(
    ("namesrv", "brokers", "more", "whole"),
    [
        (Namesrv(V4_9_7), 2_000, [], False),
        (Namesrv(V5_4_0), 2_000, [], False),
        (Namesrv(V4_9_7), 50, TWO_NAMES, False),
        (Namesrv(V4_9_7), 200, TWO_NAMES, True),
        (Namesrv(V5_4_0), 150, TWO_NAMES, False),
        (Namesrv(V5_4_0), 200, TWO_NAMES, True),
        (Namesrv(V4_9_7), 2, TWO_ADDRESSES, True),
        (Namesrv(V5_4_0), 2, TWO_ADDRESSES, False),
        (Namesrv(V5_4_0), 500, TWO_ADDRESSES, True),
        (Namesrv(V5_4_0, later=((9, Namesrv(V4_9_7)),)), 2, TWO_ADDRESSES, True),
    ],
)
def test_order_matters_only_among_those_who_share(
    namesrv: Namesrv,
    brokers: int,
    more: list[Edge],
    whole: bool,  # noqa: FBT001  the expected answer
) -> None:
    """However large a name server is, brokers that share neither address nor channel are replayed apart."""
    assert must_stay_whole([*fleet(brokers), *more], namesrv) is whole


@pytest.mark.parametrize(("brokers", "whole"), [(94, False), (95, True)])
def test_a_map_may_have_grown_when_three_quarters_are_full(
    brokers: int,
    whole: bool,  # noqa: FBT001  the expected answer
) -> None:
    """96 names, another one among them, in a map of 128 change its order."""
    assert must_stay_whole([*fleet(brokers), *TWO_NAMES], Namesrv(V4_9_7)) is whole


def test_a_map_that_had_grown_before_has_not_shrunk() -> None:
    """Of few names today: how large the map is was told by the day before."""
    assert must_stay_whole([*fleet(2), *TWO_NAMES], Namesrv(V5_4_0), has_grown=True)
    assert not must_stay_whole(fleet(2), Namesrv(V5_4_0), has_grown=True)


@pytest.mark.parametrize("crossing", [NO_ADDR, NO_KEY, SEVERAL_BROKERS, SEVERAL_CLUSTERS])
def test_what_acts_beyond_its_unit_keeps_the_name_server_whole(crossing: str) -> None:
    """A name in two clusters does nothing to others in 5.x."""
    assert must_stay_whole(fleet(2), Namesrv(V4_9_7), [crossing])
    assert must_stay_whole(fleet(2), Namesrv(V5_4_0), [crossing]) is (crossing != SEVERAL_CLUSTERS)


NODES = st.sampled_from(["n", "a", *(f"{kind}:{n}" for kind in "nac" for n in range(4))])


@given(st.lists(st.tuples(NODES, NODES)))
def test_a_unit_is_what_can_be_reached(edges: list[Edge]) -> None:
    """Nodes are in one unit exactly if edges lead from one to the other; its name is the smallest of them."""
    reached = {end: {end} for edge in edges for end in edge}
    for _ in reached:
        for one, other in edges:
            reached[one] |= reached[other]
            reached[other] |= reached[one]
    assert components(edges) == {node: min(others) for node, others in reached.items()}
