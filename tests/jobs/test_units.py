"""When a name server's day must not be split into units. Plain Python: no Spark."""

from __future__ import annotations

import pytest

from jobs.units import Edge, must_stay_whole
from namesrv_core import V4_9_7, V5_4_0, Namesrv

NS = "10.0.0.9:9876"


def fleet(brokers: int) -> list[Edge]:
    """Give brokers that share nothing: each a name, an address and a channel of its own."""
    return [
        edge
        for n in range(brokers)
        for edge in (Edge(NS, f"a:10.1.0.{n}", f"n:broker-{n}"), Edge(NS, f"a:10.1.0.{n}", f"c:channel-{n}"))
    ]


TWO_NAMES = [Edge(NS, "a:10.1.0.0", "n:other")]
TWO_ADDRESSES = [Edge(NS, "a:10.2.0.1", "n:slave"), Edge(NS, "a:10.2.0.1", "c:channel-0")]


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
    ],
)
def test_order_matters_only_among_those_who_share(
    namesrv: Namesrv,
    brokers: int,
    more: list[Edge],
    whole: bool,  # noqa: FBT001  the expected answer
) -> None:
    """However large a name server is, brokers that share neither address nor channel are replayed apart."""
    assert must_stay_whole([*fleet(brokers), *more], {NS: namesrv}) == {NS: whole}


def test_who_has_no_edges_is_split() -> None:
    """A name server of which nothing is known yet is not held together by the others."""
    assert must_stay_whole([*fleet(2), *TWO_ADDRESSES], {NS: Namesrv(V4_9_7), "10.0.0.8:9876": Namesrv(V4_9_7)}) == {
        NS: True,
        "10.0.0.8:9876": False,
    }
