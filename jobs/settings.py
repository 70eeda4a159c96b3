"""Find out how each name server was configured: what conf/ says, what it said itself, what its answers show.

Reads   the bronze events and answers of a day, the settings of other days, and the history slices of the day before
Gives   namesrv_settings of that day, and the name servers with which it is replayed
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.conf import PipelineConf
from jobs.frames import Frames
from namesrv_core.inference import settings
from namesrv_core.inference.settings import Known, Life, Setting, Statement, Votes
from namesrv_core.machine.instants import NS_PER_MS
from namesrv_core.machine.profile import CHANNEL_MAX_IDLE_MS, Namesrv, profile_of_version
from namesrv_wire.closing import LATE_NS
from namesrv_wire.codes import version_name
from schemas import codec
from schemas.times import day_start_seq

Rows = list[dict[str, Any]]
_SETTING_COLUMNS = (
    "setting",
    "value",
    "source",
    "from_seq",
    "process_seq",
    "restart_value",
    "evidence",
    "answers_for",
    "answers_against",
)


@dataclass(frozen=True)
class DaySettings:
    """What is known of every name server's settings on one day."""

    day: dt.date
    known: Mapping[str, Known]

    @property
    def settled(self) -> dict[str, list[Setting]]:
        """Return the values by name server."""
        return {name: settings.settle(known) for name, known in sorted(self.known.items())}

    @property
    def namesrvs(self) -> dict[str, Namesrv]:
        """Return the name servers as they were on the day."""
        return namesrvs_of(self.settled, self.day)

    @property
    def reconsidered_since(self) -> int | None:
        """Return the position since which earlier days were replayed with a value that turns out wrong; None: never."""
        found = [
            setting.life_seq
            for name, values in self.settled.items()
            for setting in settings.reconsidered(values, self.known[name].before)
        ]
        return min(found, default=None)

    def open(self, setting: str) -> list[str]:
        """Return the name servers for which evidence about `setting` is looked for."""
        return [
            name
            for name, values in self.settled.items()
            if any(value.name == setting and value.source.is_open for value in values)
        ]

    def with_votes(self, votes: Mapping[str, list[Votes]]) -> DaySettings:
        """Return the same with more evidence."""
        known = {n: replace(k, votes=(*k.votes, *votes.get(n, ()))) for n, k in self.known.items()}
        return DaySettings(self.day, known)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the rows of `namesrv_settings`."""
        rows = [
            tuple(row.values()) for name, values in self.settled.items() for row in codec.setting_rows(values, name)
        ]
        schema = (
            "namesrv_id STRING, setting STRING, value STRING, source STRING, valid_from BIGINT, valid_to BIGINT, "
            "from_seq BIGINT, process_seq BIGINT, restart_value STRING, answers_for BIGINT, answers_against BIGINT, "
            "evidence ARRAY<STRING>"
        )
        times = {c: F.timestamp_micros(c) for c in ("valid_from", "valid_to")}
        return spark.createDataFrame(rows, schema).withColumns({**times, "day": F.lit(self.day)})


def namesrvs_of(settled: Mapping[str, list[Setting]], day: dt.date) -> dict[str, Namesrv]:
    """Return each name server as it was when `day` began, with what it became later."""
    start_seq = day_start_seq(day)
    return {name: settings.namesrv_of(values, start_seq) for name, values in settled.items()}


def read_settings(namesrv_settings: DataFrame, day: dt.date) -> dict[str, list[Setting]]:
    """Return the settings of `day` by name server."""
    rows = namesrv_settings.where(F.col("day") == F.lit(day)).collect()
    found: dict[str, list[Setting]] = {}
    for row in sorted(rows, key=lambda row: (row["namesrv_id"], row["from_seq"], row["setting"])):
        found.setdefault(row["namesrv_id"], []).append(codec.setting_of(row.asDict()))
    return found


def known_settings(
    bronze: Frames, namesrv_settings: DataFrame, day: dt.date, start: dt.date | None, conf: PipelineConf
) -> DaySettings:
    """Return what is known without looking at answers. Two Spark jobs over what is rare.

    `start`: the last day replayed before `day`, at whose end every name server's settings are carried on; None: there is none.
    """
    before: dict[str, dict[str, Setting]] = {}
    hindsight: dict[str, dict[tuple[str, int], Setting]] = {}
    for row in _other_days(namesrv_settings, day, start).collect():
        setting = codec.setting_of(row.asDict())
        if row["is_later"]:
            hindsight.setdefault(row["namesrv_id"], {})[setting.name, setting.life_seq] = setting
        else:
            before.setdefault(row["namesrv_id"], {})[setting.name] = setting
    facts: dict[str, Rows] = {name: [] for name in before}
    for row in _facts(bronze, day).collect():
        facts.setdefault(row["namesrv_id"], []).append(row.asDict())
    known = {
        name: Known(
            _lives(own, before.get(name, {})),
            _statements(own),
            given=conf.given(name),
            before=before.get(name, {}),
            hindsight=hindsight.get(name, {}),
            fallback_version=_brokers_version(own),
        )
        for name, own in facts.items()
    }
    return DaySettings(day, known)


def under_idle_limit(channel_events: DataFrame, spark: SparkSession, known: DaySettings) -> DataFrame:
    """Return the ends of connections as the name servers' idle limits have them.

    Captures are read with the default limit or the one given. Where it turns out to be longer, what the timer is said
    to have done did not happen, and the packet that came later was the end.
    """
    stretches = [
        (name, from_seq, until_seq, namesrv.config.channel_max_idle_ms)
        for name, whole in known.namesrvs.items()
        if "channel_max_idle_ms" not in known.known[name].given
        for (from_seq, namesrv), until_seq in zip(
            [(0, whole), *whole.later], [*(seq for seq, _ in whole.later), None], strict=True
        )
        if namesrv.config.channel_max_idle_ms is None or namesrv.config.channel_max_idle_ms > CHANNEL_MAX_IDLE_MS
    ]
    if not stretches:
        return channel_events.where("kind <> 'late_close'")
    limits = spark.createDataFrame(stretches, "of STRING, from_seq BIGINT, until_seq BIGINT, limit_ms BIGINT")
    # A connection keeps the limit with which it was opened.
    opened = F.coalesce(F.expr("try_cast(substring_index(channel_id, '#', -1) AS BIGINT)"), F.col("seq"))
    holds = (F.col("namesrv_id") == F.col("of")) & (opened >= F.col("from_seq"))
    holds &= F.col("until_seq").isNull() | (opened < F.col("until_seq"))
    too_early = F.expr("of IS NOT NULL AND closed_by = 'timer' AND (limit_ms IS NULL OR silent_ms < limit_ms)")
    is_idle = F.expr(f"closed_by = 'namesrv' AND silent_ms BETWEEN limit_ms AND limit_ms + {LATE_NS // NS_PER_MS}")
    end = F.when(F.coalesce(is_idle, F.lit(False)), "idle").otherwise("close")
    return (
        channel_events.join(F.broadcast(limits), holds, "left")
        .where(~F.coalesce(too_early, F.lit(False)) & ~((F.col("kind") == "late_close") & F.col("of").isNull()))
        .withColumn("kind", F.when(F.col("kind") == "late_close", end).otherwise(F.col("kind")))
        .select(*channel_events.columns)
    )


# -- facts -------------------------------------------------------------------------------------------------------------


def _other_days(namesrv_settings: DataFrame, day: dt.date, start: dt.date | None) -> DataFrame:
    """Return what held last at the end of `start`, and what days after `day` found out about the start of a process."""
    row = F.struct(*_SETTING_COLUMNS)
    earlier = namesrv_settings.where(F.col("day") == F.lit(start)).groupBy("namesrv_id", "setting")
    last = earlier.agg(F.max_by(row, F.struct("day", "from_seq")).alias("row"), F.lit(False).alias("is_later"))
    found = "source IN ('stated', 'inferred') AND from_seq = process_seq"
    later = namesrv_settings.where((F.col("day") > F.lit(day)) & F.expr(found))
    next_ = later.groupBy("namesrv_id", "setting", "process_seq").agg(F.min_by(row, "day").alias("row"))
    columns = ("namesrv_id", "row.*", "is_later")
    return last.select(*columns).unionAll(next_.withColumn("is_later", F.lit(True)).select(*columns))


def _facts(bronze: Frames, day: dt.date) -> DataFrame:
    """Return what is recorded of each name server's life and configuration on `day`, and that it was there at all."""
    today = F.col("day") == F.lit(day)
    columns = ("namesrv_id", "kind", "seq", "event_id", "version", "properties")
    facts = bronze["namesrv_events"].where(today).select(*columns)
    changes = bronze["admin_events"].where(today & F.expr("code = 318 AND response_code = 0 AND NOT one_way"))
    changes = changes.select(
        "namesrv_id",
        F.lit("changed").alias("kind"),
        "seq",
        "event_id",
        F.lit(None).cast("int").alias("version"),
        F.col("config_value").alias("properties"),
    )
    facts = facts.unionAll(changes)
    for name in ("heartbeats", "registrations", "unregistrations", "channel_events", "admin_events"):
        version = F.max("request_version") if name == "registrations" else F.lit(None).cast("int")
        seen = bronze[name].where(today).groupBy("namesrv_id").agg(version.alias("version"))
        facts = facts.unionByName(seen.withColumn("kind", F.lit("seen")), allowMissingColumns=True)
    answered = bronze["route_observations"].where(today).select("namesrv_id").distinct()
    return facts.unionByName(answered.withColumn("kind", F.lit("seen")), allowMissingColumns=True)


def _lives(facts: Rows, before: Mapping[str, Setting]) -> list[Life]:
    """Return the processes of a day: the one that ran when it began, if any did, and those that started."""
    starts = sorted({row["seq"] for row in facts if row["kind"] == "started"})
    if before:
        starts = [max(setting.life_seq for setting in before.values()), *starts]
    else:
        observed = [row["seq"] for row in facts if row["kind"] == "observed_from"]
        starts = [*observed[:1], *starts] or [0]
    identified = sorted((row["seq"], row["version"], row["event_id"]) for row in facts if row["kind"] == "identified")
    lives = []
    for number, (start, until) in enumerate(zip(starts, [*starts[1:], None], strict=True)):
        own = [i for i in identified if (number == 0 or i[0] >= start) and (until is None or i[0] < until)]
        # Within a process the version cannot change; the first answer tells it.
        seen = (_release(own[0][1]), own[0][2]) if own else (None, None)
        lives.append(Life(start, *seen))
    return lives


def _statements(facts: Rows) -> list[Statement]:
    said = sorted((r["seq"], r["event_id"], r["kind"], r["properties"] or "") for r in facts if r["kind"] in _SAYING)
    return [settings.statement_of(seq, event_id, text, changes=kind == "changed") for seq, event_id, kind, text in said]


_SAYING = ("configured", "changed")


def _brokers_version(facts: Rows) -> str:
    """Return the version of the newest broker: a name server is of its brokers' generation, or newer."""
    versions = [row["version"] for row in facts if row["kind"] == "seen" and row["version"] is not None]
    return _release(max(versions, default=0))


def _release(version: int) -> str:
    """Return the release that a protocol version stands for, or that by whose rules it is replayed."""
    name = version_name(version)
    return name if name[:2] in ("4.", "5.") else profile_of_version(version).name
