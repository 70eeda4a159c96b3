"""A simulated fleet as a value: how many brokers and name servers, how they beat, and what goes wrong how often.

Everything that happens in the fleet is a function of these options and the seed; times in the fleet are microseconds since its
first day began.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from jobs.errors import UsageError
from namesrv_core.machine.profile import BROKER_CHANNEL_EXPIRED_MS, Profile, profile_named
from namesrv_wire.codes import VERSION_NAMES
from namesrv_wire.protocol.bodies import TopicTable, topic_table

US_PER_S: Final = 1_000_000
US_PER_HOUR: Final = 3_600 * US_PER_S
HOURS_PER_DAY: Final = 24

# Holes lie in this part of an hour, so that between any two of a broker there are beats.
HOLES_BEGIN_US: Final = US_PER_HOUR // 6
HOLES_END_US: Final = US_PER_HOUR - HOLES_BEGIN_US
RESTART_S: Final = (5, 60)
PARTITION_GROUPS: Final = 4
"""A partition silences every fourth broker."""

REGISTER, QUERY, LIGHT = "register", "query", "light"
FORMS: Final = (REGISTER, QUERY, LIGHT)
# A light broker beats every second and asks for ten; one that beats less often for as long as four beats take.
_LIGHT_TIMEOUT_MS, _BEATS_PER_LIGHT_TIMEOUT = 10_000, 4
_REGISTRATION_PERIOD_US: Final = 30 * US_PER_S


class FleetError(UsageError):
    """Options that no fleet can have."""


def option(default: Any, text: str, **how: Any) -> Any:
    """Return a field of `Fleet` with what its option says; `how`: as `add_argument` takes it."""
    return field(default=default, metadata={"help": text, **how})


@dataclass(frozen=True, slots=True)
class Fleet:
    """The options of `simulate`, each with what it is; shares are from 0 to 1, defaults of None are worked out from others."""

    start: dt.date
    brokers: int = option(12, "brokers")
    namesrvs: int = option(2, "name servers; every broker sends heartbeats to each")
    topics: int = option(8, "topics of each broker")
    shared_topics: bool = option(False, "all brokers have the same topics", action="store_true")
    version: str = option("4.9.7", "release of name servers and brokers")
    form: str = option(
        QUERY, "a heartbeat is a full registration, a data-version query, or 5.x's light heartbeat", choices=FORMS
    )
    beats_per_minute: int = option(2, "heartbeats of a broker in a minute")
    jitter_ms: int | None = option(
        None,
        "how much later than planned a heartbeat may come (None: so little that brokers keep their order)",
        type=int,
    )
    timeout_ms: int | None = option(
        None,
        "lease that 5.x brokers ask for (None: 10000 with light heartbeats, or as long as four of them take, else 120 s)",
        type=int,
    )
    churn: float = option(0.0, "share of the brokers whose topic configuration changes in a day")
    outages: float = option(0.0, "share of broker-hours in which a broker is silent for a while")
    outage_s: tuple[int, int] = option(
        (30, 900), "seconds that outages and partitions last", nargs=2, type=int, metavar=("MIN", "MAX")
    )
    partitions: float = option(0.0, "times a day that a name server loses a quarter of its brokers")
    restarts: float = option(0.0, "times a day that a name server restarts")
    registrations: float = option(0.0, "share of heartbeats that are registrations although nothing asks for it")
    late: float = option(0.0, "share of events that are delivered with the next day's")
    duplicates: float = option(0.0, "share of events that are delivered with the next day's once more")
    seed: int = option(1, "what all chance depends on")

    def __post_init__(self) -> None:
        shares = ("churn", "outages", "registrations", "late", "duplicates")
        for name in shares:
            _require(0 <= getattr(self, name) <= 1, f"{name} {getattr(self, name)} is no share from 0 to 1")
        for name in ("partitions", "restarts"):
            _require(0 <= getattr(self, name) <= HOURS_PER_DAY, f"{name} {getattr(self, name)}: 0 to 24 a day")
        _require(1 <= self.brokers <= 1 << 20, f"brokers {self.brokers}: 1 to {1 << 20}")
        _require(1 <= self.namesrvs <= 250, f"namesrvs {self.namesrvs}: 1 to 250")
        # 5.x refuses the first registration of a broker that brings a single topic.
        _require(self.topics == 0 or self.topics > 1, "topics 1: 5.x takes no broker with a single topic")
        _require(self.form in FORMS, f"form {self.form!r}: one of {', '.join(FORMS)}")
        _require(self.version in VERSION_NAMES, f"version {self.version!r} is no release of RocketMQ")
        five = self.profile.own_heartbeat_timeout
        _require(five or self.form != LIGHT, f"light heartbeats: {self.version} has none")
        _require(five or self.timeout_ms is None, f"timeout: {self.version} has no other than its own")
        even = self.beats_per_minute > 0 and 60 * US_PER_S % self.beats_per_minute == 0
        _require(even, f"beats per minute {self.beats_per_minute}: a minute must be a whole number of them in µs")
        _require(
            self.jitter_us > 0, f"{self.brokers} brokers, {self.beats_per_minute} beats a minute: no room to jitter"
        )
        _require(self.interval_us > self.jitter_us + self.brokers, f"jitter {self.jitter_ms} ms: longer than a beat")
        shortest, longest = self.outage_s
        _require(0 < shortest <= longest <= 2_000, f"outages of {shortest} to {longest} s: 1 to 2000")
        _require(0 < self.lease_ms <= 600_000, f"timeout {self.timeout_ms} ms: 1 to 600000")
        apart_us = self.interval_us + self.jitter_us + self.brokers
        _require(self.lease_ms * 1_000 > apart_us, f"timeout {self.lease_ms} ms: ends between two beats")

    @property
    def profile(self) -> Profile:
        """Return the generation of the name servers."""
        return profile_named(self.version)

    @property
    def protocol(self) -> int:
        """Return the protocol version in all headers."""
        return VERSION_NAMES.index(self.version)

    @property
    def interval_us(self) -> int:
        """Return the time between two beats."""
        return 60 * US_PER_S // self.beats_per_minute

    @property
    def beats_per_hour(self) -> int:
        """Return the beats of a broker in an hour."""
        return 60 * self.beats_per_minute

    @property
    def beats_per_day(self) -> int:
        """Return the beats of a broker in a day."""
        return HOURS_PER_DAY * self.beats_per_hour

    @property
    def jitter_us(self) -> int:
        """Return how much later than its earliest moment a beat may come."""
        if self.jitter_ms is not None:
            return self.jitter_ms * 1_000
        return max(1, min(self.interval_us // self.brokers, self.interval_us - 1) - self.brokers)

    @property
    def timeout_in_header_ms(self) -> int | None:
        """Return the lease that registrations ask for, None if they do not."""
        if self.timeout_ms is not None or self.form != LIGHT:
            return self.timeout_ms
        return max(_LIGHT_TIMEOUT_MS, _BEATS_PER_LIGHT_TIMEOUT * self.interval_us // 1_000)

    @property
    def lease_ms(self) -> int:
        """Return the lease that name servers give."""
        return BROKER_CHANNEL_EXPIRED_MS if self.timeout_in_header_ms is None else self.timeout_in_header_ms

    @property
    def beats_per_registration(self) -> int:
        """Return how many beats apart registrations are that come anyway; 0: there are none."""
        if self.form == QUERY:
            return 0
        return 1 if self.form == REGISTER else max(1, _REGISTRATION_PERIOD_US // self.interval_us)

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the options in canonical JSON: two fleets with the same one are the same."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True, default=str).encode()).hexdigest()

    def number_of(self, day: dt.date) -> int:
        """Return the number of `day`, from 0. Raises FleetError for a day before the first."""
        _require(day >= self.start, f"{day}: the fleet starts on {self.start}")
        return (day - self.start).days

    def topic_table(self, owner: int, version: int) -> TopicTable:
        """Return the topic table of broker `owner` (-1: of all brokers) after `version` changes of it."""
        topics = [
            {
                "topic": f"topic-{n:05}" if owner < 0 else f"b{owner:05}-topic-{n:05}",
                "read_queue_nums": 8,
                "write_queue_nums": 8,
                "perm": 6,
                "topic_sys_flag": 0,
            }
            for n in range(self.topics)
        ]
        if topics:
            topics[-1] |= {"read_queue_nums": 8 + version, "write_queue_nums": 8 + version}
        return topic_table(topics, [])


def fleet_of(options: Mapping[str, Any]) -> Fleet:
    """Return the fleet of command-line options; others than a fleet's are ignored. Raises FleetError."""
    given = {field.name: options[field.name] for field in fields(Fleet) if field.name in options}
    return Fleet(**given | ({"outage_s": tuple(given["outage_s"])} if "outage_s" in given else {}))


def _require(condition: bool, message: str) -> None:  # noqa: FBT001  an assertion about outside input
    if not condition:
        raise FleetError(message)
