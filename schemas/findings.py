"""The catalogue of findings: what each is told of, how long it lasts, from when on it counts; a DuckDB query a file.

A query gives one row for each thing that is so at some time of a name server's day: severity, subject, from_time, to_time
(NULL: still so when the day ends), detail, evidence. It reads the day's tables by their names, `standing` (what of its code was
open when the day began), `expired_before` (brokers that were away then), `about` (one row: whose day it is, and `seen_until`,
when the last of the day was recorded, be it a plain beat or an answer), and values as `$name`. `broker_names` and `topic_names`,
where it has them: what it touches; a NULL or a repeat in `evidence` is no event. A file begins with comments: what is looked
for, where that is more than the `meaning:`, and a line for each of `meaning:`, `severity:`, `remedy:` and perhaps `threshold:`,
a name in `THRESHOLDS`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from schemas.sql_files import query

Lasts = Literal["subject", "event", "day"]
_BEAT_US = 30_000_000
_MINUTE_US = 2 * _BEAT_US
_HOUR_US = 60 * _MINUTE_US
_DAY_US = 24 * _HOUR_US


@dataclass(frozen=True)
class Thresholds:
    """From when on something is told.

    Three departures within `flapping_us` are flapping; a broker that is back `soon_us` after its removal was hardly dead; an
    address without live entry is a ghost after `ghost_us`; a topic has no writable queue after `unwritable_us`; a data
    version is from the future `ahead_ms` ahead; `mass` topics lost by one event are many; brokers beat every 30 s, so that name
    servers disagree after `diverged_us`; one without a live broker is abandoned after `abandoned_us`. After `waited_us` a broker
    that was removed is not waited for any more.
    """

    flapping_us: int = _HOUR_US
    soon_us: int = _MINUTE_US
    ghost_us: int = 2 * _MINUTE_US
    unwritable_us: int = 1_000_000
    ahead_ms: int = 60_000
    mass: int = 5
    diverged_us: int = _MINUTE_US
    abandoned_us: int = 10 * _MINUTE_US
    waited_us: int = 7 * _DAY_US


THRESHOLDS = {
    "flapping_within_s": ("flapping_us", 1_000_000),
    "back_within_s": ("soon_us", 1_000_000),
    "ghost_after_s": ("ghost_us", 1_000_000),
    "unwritable_after_ms": ("unwritable_us", 1_000),
    "clock_ahead_ms": ("ahead_ms", 1),
    "many_topics": ("mass", 1),
    "diverged_after_s": ("diverged_us", 1_000_000),
    "abandoned_after_s": ("abandoned_us", 1_000_000),
}
"""Thresholds by their names in conf/ [findings], and what one of their unit is in the catalogue's."""


@dataclass(frozen=True)
class Finding:
    """One code of the catalogue.

    `of`: the tables without rows of which there is no such finding; of a history, rows that were opened or closed on the day
    count, without which what stood goes on. Empty: time alone can bring it. `lasts`: by what one that outlasts its day is known
    again: its subject; the event that began it, its first evidence; or its subject and the day on which it began.
    None: it is over with its day. `looks_back`: its query reads what closed on the last day before, too, so that midnight parts
    nothing that belongs together; it tells what is, or ended, on the day. `near_us`: how soon after another one begins that is
    told together with it; brokers beat every 30 s, so the last beats of those that fall silent together lie no further apart.
    `is_between`: it shows only where name servers are compared. `shows_in_logs`: it is about what is there, or was: a log shows
    rows, and never that there are no others. `needs_events`: it is about brokers that are not live, or lack topics, which nobody
    knows of brokers that only answers show.
    """

    code: str
    of: tuple[str, ...] = ()
    lasts: Lasts | None = None
    near_us: int = _BEAT_US
    is_between: bool = False
    looks_back: bool = False
    shows_in_logs: bool = False
    needs_events: bool = False

    @property
    def sql(self) -> str:
        """Return its query."""
        return query(f"findings/{self.code.lower()}")

    @cached_property
    def said(self) -> dict[str, str]:
        """Return what people are told of the code: `meaning`, `severity`, `remedy`, and `threshold` where it has one."""
        lines = (line[3:].partition(": ") for line in self.sql.splitlines() if line.startswith("-- "))
        return {key: value for key, _, value in lines if key in ("meaning", "severity", "threshold", "remedy")}

    @property
    def is_static(self) -> bool:
        """Return whether it is a condition of a cluster rather than something that happened."""
        return self.lasts == "day"

    @cached_property
    def words(self) -> frozenset[str]:
        """Return the words in its query, `$` before names of values: what it may read."""
        return frozenset(re.findall(r"\$?\w+", self.sql))


CATALOGUE = (
    Finding("ADDR_MULTI_IDENTITY", ("broker_addr_history",), "subject"),
    Finding("ADDRESS_SHARED", ("suspected",)),
    Finding("BROKER_FLAPPING", ("broker_live_history",), looks_back=True, shows_in_logs=True),
    Finding("BROKER_NAME_CONFLICT", ("cluster_addr_history",), "subject"),
    Finding("CLOCK_JUMP", ("namesrv_events",), near_us=_DAY_US, shows_in_logs=True),
    Finding("CLOCK_SKEW", ("data_version_history",), near_us=_DAY_US),
    Finding("DUAL_MASTER_CLAIM", ("event_outcomes", "broker_addr_history"), "subject", looks_back=True),
    Finding("EXPIRED_BROKER", ("expired_brokers",), "event", shows_in_logs=True),
    Finding("EXPIRED_WHILE_ALIVE", ("heard",)),
    Finding("FRAME_TOO_LONG", ("too_long", "broker_live_history"), "subject"),
    Finding("GHOST_BROKER", (), "subject", looks_back=True, needs_events=True),
    Finding("GHOST_CLUSTER_MEMBER", ("cluster_addr_history", "broker_addr_history"), "subject"),
    Finding("LOG_GAP", ("event_outcomes",), "subject"),
    Finding("MASS_TOPIC_LOSS", ("route_changes",)),
    Finding("NO_MASTER", ("broker_addr_history",), "subject"),
    Finding("NO_WRITABLE_QUEUE", ("orphaned_topics",), "event"),
    Finding("NS_ABANDONED", ("asked",), "subject", looks_back=True, needs_events=True),
    Finding("NS_COLD_START", ("event_outcomes",), "subject", near_us=0, looks_back=True),
    Finding("NS_DIVERGENCE", lasts="event", is_between=True),
    Finding("NS_SPLIT", lasts="subject", is_between=True),
    Finding("ORPHAN_TOPIC", ("orphaned_topics",), "event"),
    Finding(
        "PARTIAL_FIRST_REGISTRATION",
        ("lone", "topic_queue_history", "broker_addr_history"),
        "subject",
        looks_back=True,
        needs_events=True,
    ),
    Finding("PRIVATE_ADDR", ("broker_addr_history",), "day", shows_in_logs=True),
    Finding("PRIVATE_HA_ADDR", ("broker_live_history",), "subject"),
    Finding("READ_LT_WRITE", ("topic_queue_history",), "day", shows_in_logs=True),
    Finding("REGISTRATION_REFUSED", ("refused", "taken"), "subject"),
    Finding("RESIDUAL_TOPIC", ("orphaned_topics",), "event"),
    Finding("SAME_PROCESS_SUSPECTED", ("suspected",)),
    Finding("SAME_VERSION_NEW_CONTENT", ("same_version",)),
    Finding("SINGLE_BROKER_TOPIC", ("topic_queue_history", "cluster_addr_history"), "day"),
    Finding("SPLIT_BATCH_SKIPPED", ("same_version",)),
    Finding("STALE_ORDER_CONF", ("orphaned_topics",), "event"),
    Finding("STALE_UNREGISTER", ("wiped", "broker_live_history"), "subject"),
    Finding("STATIC_MAPPING_LEFT", ("unmapped", "topic_queue_history", "topic_queue_mapping_history"), "subject"),
    Finding("VERSION_REGRESSION", ("data_version_history",), near_us=_DAY_US),
    Finding("WRITE_PERM_LEFT_WIPED", ("topic_queue_history",), "event"),
)

BETWEEN = frozenset(finding.code for finding in CATALOGUE if finding.is_between)
"""The codes that outlast a day and are told by comparing name servers."""
