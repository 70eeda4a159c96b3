"""The clients of a simulated fleet: who asks which name server what, and when.

As with the brokers, all follows from numbers: a question is known from its client, the number of the poll and its place in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from jobs.errors import FleetError
from namesrv_core.asking.requests import Request
from namesrv_core.machine.codes import RequestCode
from namesrv_core.machine.instants import NS_PER_US
from namesrv_wire.codes import VERSION_NAMES
from namesrv_wire.protocol.frames import JSON, ROCKETMQ
from schemas.times import day_start_us
from tools.fleet.draws import PPM, Longs, draw, happens
from tools.fleet.fleet import US_PER_S, Fleet
from tools.fleet.frames import Encoded, Head, encoded

ANEW, WRONG = 1, 2
"""Flags of a question: its client connects anew before it; it gets a wrong answer."""
_US_PER_DAY: Final = 86_400 * US_PER_S
_RECONNECTIONS_PER_DAY: Final = 3
# Of so many questions one is about the whole cluster, one about all topics, and one about a topic that nobody has.
_CLUSTER_ONE_IN, _LIST_ONE_IN, _UNKNOWN_ONE_IN = 500, 2_000, 50
_APART_US: Final = 900
_LEGACY_VERSION: Final = VERSION_NAMES.index("4.9.0")
_UNKNOWN_TOPIC: Final = "no-such-topic"


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a capture has beside the brokers' beats.

    `clients`: each has one name server, and asks it for `asks` topics every `poll_s` seconds. `loss`: share of packets that are
    lost and come again. `wrong_answers`: how many each name server gives in a day, on average.
    """

    clients: int = 20
    asks: int = 4
    poll_s: int = 30
    loss: float = 0.001
    wrong_answers: int = 0

    def __post_init__(self) -> None:
        for name, most in (("clients", 1 << 17), ("asks", 1_000), ("poll_s", 3_600), ("wrong_answers", 10_000)):
            value = getattr(self, name)
            if not (name in ("asks", "poll_s")) <= value <= most:
                raise FleetError(f"{name.replace('_', ' ')} {value}: at most {most}")
        if not 0 <= self.loss <= 0.2:
            raise FleetError(f"loss {self.loss}: a share from 0 to 0.2")


def traffic_of(options: Mapping[str, Any]) -> Traffic:
    """Return the traffic of command-line options; others are ignored. Raises FleetError."""
    return Traffic(**{field.name: options[field.name] for field in fields(Traffic) if field.name in options})


class Questions(NamedTuple):
    """Questions to one name server, in order of time: when (ns), the client, code and topic, flags, and luck (millionths)."""

    at_ns: Longs
    c: Longs
    code: Longs
    topic: Longs
    flags: Longs
    luck: Longs


class Asked(NamedTuple):
    """A question as the core takes it, and as a frame but for its number."""

    request: Request
    frame: Encoded


def client_endpoint(c: int, times: int) -> str:
    """Return from where client `c` speaks when it has connected so many times."""
    return f"172.{16 + c // 62_500 % 16}.{c // 250 % 250}.{c % 250 + 1}:{32_768 + times % 28_000}"


def questions_of(fleet: Fleet, traffic: Traffic, n: int, begin_us: int, end_us: int) -> Questions:
    """Return what the clients of name server `n` ask from `begin_us` until `end_us` since the fleet's start."""
    poll_us, seed = traffic.poll_s * US_PER_S, fleet.seed
    c = np.arange(n, traffic.clients, fleet.namesrvs, dtype=np.int64)[:, None, None]
    phase = draw(seed, "client phase", poll_us, c)
    j = np.arange(max(0, begin_us // poll_us - 1), end_us // poll_us + 1, dtype=np.int64)[None, :, None]
    i = np.arange(traffic.asks, dtype=np.int64)[None, None, :]
    at_us = phase + j * poll_us + draw(seed, "poll jitter", 50_000, c, j) + i * _APART_US
    one_in = draw(seed, "question", _CLUSTER_ONE_IN * _LIST_ONE_IN * _UNKNOWN_ONE_IN, c, j, i)
    a_day = c.size * traffic.asks * _US_PER_DAY // poll_us
    wrong = draw(seed, "wrong answer", max(1, a_day), c, j, i) < traffic.wrong_answers
    topic = draw(seed, "topic", max(1, _topics(fleet)), c, i) + np.zeros_like(j)
    topic[one_in % _UNKNOWN_ONE_IN == 0] = -1
    code = np.full(at_us.shape, int(RequestCode.GET_ROUTEINFO_BY_TOPIC))
    code[one_in // _UNKNOWN_ONE_IN % _CLUSTER_ONE_IN == 0] = RequestCode.GET_BROKER_CLUSTER_INFO
    code[one_in // _UNKNOWN_ONE_IN // _CLUSTER_ONE_IN == 0] = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    code[wrong] = RequestCode.GET_ROUTEINFO_BY_TOPIC
    topic = np.where(wrong & (topic < 0), 0, topic)
    ppm = min(PPM, _RECONNECTIONS_PER_DAY * PPM * poll_us // _US_PER_DAY)
    flags = np.where((i == 0) & happens(seed, "reconnect", ppm, c, j), ANEW, 0) + np.where(wrong, WRONG, 0)
    luck = draw(seed, "luck of a question", PPM, c, j, i)
    found = np.nonzero((at_us >= begin_us) & (at_us < end_us))
    order = np.argsort(at_us[found], kind="stable")
    # Half a microsecond after the beats, so that no question comes at the same instant as one.
    at_ns = (at_us[found][order] + day_start_us(fleet.start)) * NS_PER_US + NS_PER_US // 2
    who = np.broadcast_to(c, at_us.shape)
    return Questions(at_ns, *(values[found][order] for values in (who, code, topic, flags, luck)))


class Forms:
    """The questions of a fleet's clients, as they ask them."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._of_kind = lru_cache(1 << 14)(self._made)

    def asked(self, c: int, code: int, topic: int) -> Asked:
        """Return a question of client `c`: every third has binary headers, every fifth is of an old release."""
        return self._of_kind(code, topic, c % 5 == 4, ROCKETMQ if c % 3 == 2 else JSON)

    def _made(self, code: int, topic: int, is_old: bool, serialization: int) -> Asked:  # noqa: FBT001  kept by its arguments
        version = _LEGACY_VERSION if is_old else self._fleet.protocol
        name = _UNKNOWN_TOPIC if topic < 0 or not self._fleet.topics else self._fleet.topic_name(*self._owned(topic))
        ext = {"topic": name} if code == RequestCode.GET_ROUTEINFO_BY_TOPIC else {}
        return Asked(Request(code, ext, version), encoded(Head(code, version, ext, serialization)))

    def _owned(self, topic: int) -> tuple[int, int]:
        """Return whose a topic is (-1: everybody's), and its number there."""
        return (-1, topic) if self._fleet.shared_topics else divmod(topic, self._fleet.topics)


def _topics(fleet: Fleet) -> int:
    return fleet.topics if fleet.shared_topics else fleet.topics * fleet.brokers
