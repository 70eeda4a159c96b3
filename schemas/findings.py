"""The catalogue of findings: the condition of each code, how long it lasts, its threshold. Each has a DuckDB query in a file.

A query returns one row for each time on a name server's day in which its condition is true: severity, subject, from_time, to_time
(NULL: still true when the day ends), detail, evidence, and perhaps `broker_names` and `topic_names`: those affected. `evidence`
begins with the event that began it; NULLs and repeats in it are dropped. A query reads the day's tables by their names,
`open_findings` (those of its code, open when the day began), `expired_before` (brokers that were away then), `about` (one row: the
name server, and `seen_until`, the time of the day's last record, plain heartbeats and answers included), and values as `$name`. A
file begins with comments: what the query looks for, if the `meaning:` does not say it all, then a line for each of `meaning:`,
`severity:`, `remedy:` and perhaps `threshold:`, a name in `THRESHOLDS`.
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
    """Thresholds above which findings are reported.

    Three departures within `flapping_us` are flapping. A broker that is back `soon_us` after its removal was hardly dead. An
    address without a live entry is a ghost after `ghost_us`. A topic without a writable queue counts after `unwritable_us`. A
    data version is from the future if it is `ahead_ms` ahead. `mass` topics lost by one event are many. Name servers disagree
    after `diverged_us`, because brokers send heartbeats every 30 s. A name server without a live broker is abandoned after
    `abandoned_us`. A removed broker is waited for until `waited_us`.
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
"""Thresholds by their names in conf/ [findings]: field of `Thresholds`, and factor from the setting's unit to the field's."""


@dataclass(frozen=True)
class Finding:
    """One code of the catalogue.

    `of`: the tables that must have rows for a new finding; of a history, only rows opened or closed on the day count, and without
    them an open finding continues. Empty: the passage of time alone can cause a finding. `lasts`: the key by which a
    finding that outlasts its day is recognised: its subject; the event that began it (its first evidence); or its subject and the
    day on which it began. None: it ends with its day. `looks_back`: its query also reads the intervals that closed on the last day
    before, so that midnight separates nothing that belongs together; it reports what exists, or ended, on the day. `near_us`:
    findings that begin within this time of each other are reported together; brokers send heartbeats every 30 s, so the last
    heartbeats of brokers that fall silent together are no further apart. `is_between`: it needs a comparison of name servers.
    `shows_in_logs`: a log can show it, because it is about rows that exist or existed; a log never shows that there are no others.
    `needs_events`: it is about brokers that are not live or lack topics, which answers alone do not show.
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
    def texts(self) -> dict[str, str]:
        """Return the texts about the code: `meaning`, `severity`, `remedy`, and `threshold` if it has one."""
        lines = (line[3:].partition(": ") for line in self.sql.splitlines() if line.startswith("-- "))
        return {key: value for key, _, value in lines if key in ("meaning", "severity", "threshold", "remedy")}

    @property
    def is_static(self) -> bool:
        """Return whether it is a condition of a cluster rather than something that happened."""
        return self.lasts == "day"

    @cached_property
    def words(self) -> frozenset[str]:
        """Return the words in its query, `$` before names of values: they include the names of all that it reads."""
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
    Finding("EXPIRED_WHILE_ALIVE", ("unrenewed",)),
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
"""The codes of findings from a comparison of name servers."""
