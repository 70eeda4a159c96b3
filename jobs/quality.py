"""The gate: counts the rows that break the rules of `schemas.rules`, and shows the counts as Data Docs.

Spark counts, Great Expectations judges: it sees one row per table with a column per rule, never the tables.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs import jvm
from jobs.repeated_keys import repeated_hashes
from jobs.tables import of_days, union_all
from schemas.rules import RULES, TABLES, Kind, Rule
from schemas.table import Severity

REASONS = "_reasons"
"""Column with the names of the rules that a row breaks."""
SAMPLES = 3
SAMPLE_CHARS = 300
KEPT_RESULTS = 10
"""Judgements of one table that Data Docs keep."""
RESULTS = "results"
"""Folder of the results in the folder of the Data Docs, beside their pages."""

_TABLES_AT_A_TIME = 4
# Of as much, keys are looked for by their hashes first; of less, that takes longer than to group them.
_MANY_BYTES = 256 << 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One rule counted on one table.

    `rows` were judged (of the table, or of the rule's query), `broken` of them break the rule, and `sample`
    shows a few of those as JSON. Where a table that the rule reads was not given, `missing` names it, and
    nothing was counted.
    """

    table: str
    rule: str
    severity: Severity
    kind: Kind
    says: str
    rows: int | None
    broken: int | None
    sample: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate says. Rules are named `table.rule`; only broken critical ones keep it shut."""

    passed: bool
    critical: list[str]
    warnings: list[str]
    skipped: list[str]
    docs_path: Path
    tables: int
    rules: int


# -- counting ---------------------------------------------------------------------------------------


class _Given(NamedTuple):
    """What is judged: rows of `frames`, by table name; of `days`, where they have a day and `days` are given."""

    spark: SparkSession
    frames: Mapping[str, DataFrame]
    days: Collection[dt.date] | None

    def judged(self, table: str, rule: Rule) -> DataFrame:
        """Return the rows that `rule` of `table` judges: the table's own, or those of its query."""
        if rule.over is None:
            rows = self.frames[table]
        else:
            read: dict[str, Any] = {name: self.frames[name] for name in rule.needs}
            rows = self.spark.sql(rule.over, **read)
        return rows if self.days is None or "day" not in rows.columns else of_days(rows, self.days)


def measure(
    spark: SparkSession,
    frames: Mapping[str, DataFrame],
    only: Collection[str] | None = None,
    days: Collection[dt.date] | None = None,
) -> list[Measurement]:
    """Return a measurement for every rule of every table in `frames`, by table name, in the order of `RULES`.

    Rules may read other tables of `frames`; with `only`, just these tables are judged, and with `days`, of what has a day,
    just these days.
    Every frame is read several times: give stored or cached tables.
    Raises KeyError for a table without rules.
    """
    given = _Given(spark, frames, days)
    without = {name for name, frame in frames.items() if _has_no_rows(frame)}
    with ThreadPoolExecutor(_TABLES_AT_A_TIME) as pool:
        by_table = {
            name: pool.submit(_measure_table, given, name, without) for name in sorted(frames if only is None else only)
        }
        measured = {name: future.result() for name, future in by_table.items()}
    return [measurement for name in RULES if name in measured for measurement in measured[name]]


def _measure_table(given: _Given, table: str, without: set[str]) -> list[Measurement]:
    """Measure one table; `without`: the names of those frames of which Spark knows that they have no rows."""
    rules = RULES[table]
    missing = {rule.name: tuple(name for name in rule.needs if name not in given.frames) for rule in rules}
    possible = [rule for rule in rules if not missing[rule.name]]
    # Rules judge rows of the tables that they read: where there are none, Spark need not be asked.
    counts = {rule.name: (0, 0) for rule in possible if {table, *rule.needs} <= without}
    counts.update(_counted_by_hashes(given, table, [rule for rule in possible if rule.name not in counts]))
    asked = [rule for rule in possible if rule.name not in counts]
    if asked:
        counted = _counts(given, table, asked).collect()
        counts.update({row["rule"]: (row["rows"], row["broken"]) for row in counted})
    measured = []
    for rule in rules:
        rows, broken = counts.get(rule.name, (None, None))
        measured.append(
            Measurement(table, rule.name, rule.severity, rule.kind, rule.says, rows, broken, (), missing[rule.name])
        )
    broken_rules = [rule for rule in possible if counts[rule.name][1]]
    if not broken_rules:
        return measured
    samples: dict[str, list[str]] = {}
    for row in _samples(given, table, broken_rules).collect():
        samples.setdefault(row["rule"], []).append(row["sample"])
    return [replace(m, sample=tuple(sorted(samples.get(m.rule, ())))) for m in measured]


def _counted_by_hashes(given: _Given, table: str, rules: Iterable[Rule]) -> dict[str, tuple[int, int]]:
    """Return (rows, broken) of rules about keys of very many rows, where already the hashes of all keys differ."""
    found = {}
    for rule in rules:
        if rule.keys is None or sum(jvm.bytes_of(given.frames[name]) for name in rule.needs) < _MANY_BYTES:
            continue
        rows, repeated = repeated_hashes(given.judged(table, replace(rule, over=rule.keys)))
        if not repeated:
            found[rule.name] = (rows, 0)
    return found


def _has_no_rows(frame: DataFrame) -> bool:
    """Return whether Spark knows, without a job, that `frame` has no rows."""
    return frame.isLocal() and frame.isEmpty()


def _counts(given: _Given, table: str, rules: Iterable[Rule]) -> DataFrame:
    """Return one row per rule: rule, rows, broken. Rules of the same rows share one pass over them."""
    passes: dict[str | None, list[Rule]] = {}
    for rule in rules:
        passes.setdefault(rule.over, []).append(rule)

    def count(rule: Rule) -> str:
        return f"named_struct('rule', '{rule.name}', 'rows', count(*), 'broken', count_if({_broken(rule)}))"

    return union_all(
        given.judged(table, together[0])
        .selectExpr(f"array({', '.join(map(count, together))}) AS counts")
        .selectExpr("inline(counts)")
        for together in passes.values()
    )


def _samples(given: _Given, table: str, rules: Iterable[Rule]) -> DataFrame:
    """Return up to SAMPLES rows per rule: rule, sample (a table's key, or all of a query's row)."""

    def sample(rule: Rule) -> DataFrame:
        judged = given.judged(table, rule)
        columns = TABLES[table].key if rule.over is None else judged.columns
        shown = F.substring(F.to_json(F.struct(*columns)), 1, SAMPLE_CHARS).alias("sample")
        broken = judged.where(_broken(rule)).select(F.lit(rule.name).alias("rule"), shown)
        return broken.orderBy("sample").limit(SAMPLES)

    return union_all(sample(rule) for rule in rules)


def _broken(rule: Rule) -> str:
    """Return the SQL boolean that a row breaks `rule`; never NULL."""
    return f"NOT coalesce({rule.holds}, FALSE)"


# -- single rows ------------------------------------------------------------------------------------


def with_reasons(frame: DataFrame, table: str) -> DataFrame:
    """Return the rows of `frame` with REASONS: the critical row rules of `table` that each breaks, in the order of `RULES`."""
    reasons = F.filter(
        F.array(
            *(
                F.when(F.expr(_broken(rule)), F.lit(rule.name))
                for rule in RULES[table]
                if rule.over is None and rule.severity == "critical"
            )
        ),
        lambda reason: reason.isNotNull(),
    )
    return frame.withColumn(REASONS, reasons)


# -- judging ----------------------------------------------------------------------------------------


def judge(measurements: Iterable[Measurement], docs_dir: str | os.PathLike[str]) -> Verdict:
    """Return the verdict of Great Expectations on `measurements`, and write its Data Docs into `docs_dir`.

    One suite per table, one expectation per rule: no row breaks it. A rule that could not be counted is
    skipped: it fails as information and does not shut the gate. Docs keep the last KEPT_RESULTS judgements
    of a table. Samples stay out of them, because they hold what strangers sent.
    """
    by_table: dict[str, list[Measurement]] = {}
    for measurement in measurements:
        by_table.setdefault(measurement.table, []).append(measurement)
        _log_if_broken(measurement)
    docs = Path(docs_dir).resolve()
    docs.mkdir(parents=True, exist_ok=True)

    named: dict[str, list[str]] = {"critical": [], "warning": [], "info": []}
    for table, result in _judge_tables(by_table, docs):
        if not result.success:
            config = result.expectation_config
            named[config.severity].append(f"{table}.{config.kwargs['column']}")
    return Verdict(
        passed=not named["critical"],
        critical=named["critical"],
        warnings=named["warning"],
        skipped=named["info"],
        docs_path=docs / "index.html",
        tables=len(by_table),
        rules=sum(map(len, by_table.values())),
    )


def _log_if_broken(measurement: Measurement) -> None:
    m = measurement
    if m.missing:
        _log.warning("rule=%s.%s skipped missing=%s", m.table, m.rule, ",".join(m.missing))
    elif m.broken:
        level = logging.ERROR if m.severity == "critical" else logging.WARNING
        # JSON has no line breaks and no control characters: one line, whatever strangers sent.
        _log.log(
            level,
            "rule=%s.%s severity=%s broken=%d rows=%d sample=%s",
            *(m.table, m.rule, m.severity, m.broken, m.rows, " ".join(m.sample)),
        )


def _judge_tables(by_table: Mapping[str, list[Measurement]], docs: Path) -> list[tuple[str, Any]]:
    """Return (table, result) of every expectation, after the pages are written."""
    # Imported here: Great Expectations takes seconds to load, and only the gate needs it.
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx  # noqa: PLC0415
    from great_expectations.core.run_identifier import RunIdentifier  # noqa: PLC0415
    from great_expectations.data_context.types import resource_identifiers as ids  # noqa: PLC0415

    context = gx.get_context(mode="ephemeral", project_config=_context_config(docs))
    source = context.data_sources.add_pandas("gate")
    run_id = RunIdentifier(run_name="gate", run_time=dt.datetime.now(dt.timezone.utc))
    pages: list[Any] = []
    results = []
    for table, of_table in by_table.items():
        batch = source.add_dataframe_asset(table).add_batch_definition_whole_dataframe("broken_rows")
        suite = context.suites.add(_suite(table, of_table))
        definition = context.validation_definitions.add(gx.ValidationDefinition(name=table, data=batch, suite=suite))
        broken = pd.DataFrame({m.rule: [m.broken] for m in of_table}, dtype="Int64")
        result = definition.run(batch_parameters={"dataframe": broken}, run_id=run_id)
        results += [(table, of_rule) for of_rule in result.results]
        suite_id = ids.ExpectationSuiteIdentifier(table)
        pages += [suite_id, ids.ValidationResultIdentifier(suite_id, run_id, result.batch_id)]
    _prune(docs)
    context.build_data_docs(resource_identifiers=pages)
    return results


def _suite(table: str, measurements: Iterable[Measurement]) -> Any:
    """Return the suite of a table: for each rule that the count of broken rows is 0."""
    import great_expectations as gx  # noqa: PLC0415  as in _judge_tables
    import great_expectations.expectations as gxe  # noqa: PLC0415

    suite = gx.ExpectationSuite(name=table)
    for m in measurements:
        judged = f"not judged, needs {', '.join(m.missing)}" if m.missing else f"{m.rows:,} judged"
        suite.add_expectation(
            gxe.ExpectColumnMaxToBeBetween(
                column=m.rule,
                min_value=0,
                max_value=0,
                description=f"{m.says} ({m.severity}; {judged})",
                severity="info" if m.missing else m.severity,
            )
        )
    return suite


def _context_config(docs: Path) -> Any:
    """Return a configuration that keeps results and pages in `docs`, and all else in memory."""
    from great_expectations.data_context.types import base  # noqa: PLC0415  as in _judge_tables

    def files(folder: Path) -> dict[str, Any]:
        return {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder)}

    defaults = base.InMemoryStoreBackendDefaults()
    defaults.stores[defaults.validation_results_store_name]["store_backend"] = files(docs / RESULTS) | {
        "filepath_suffix": ".json"
    }
    defaults.data_docs_sites = {
        "data_docs": {
            "class_name": "SiteBuilder",
            "show_how_to_buttons": False,
            "store_backend": files(docs),
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        }
    }
    return base.DataContextConfig(
        store_backend_defaults=defaults,
        analytics_enabled=False,
        progress_bars=base.ProgressBarsConfig(globally=False),
    )


def _prune(docs: Path) -> None:
    """Delete all but the last KEPT_RESULTS judgements of each table, results and pages."""
    for folder in (docs / RESULTS, docs / "validations"):
        for table in folder.iterdir() if folder.is_dir() else ():
            # <table>/<run name>/<run time>/<batch>: times sort as text.
            times = sorted((time for time in table.glob("*/*") if time.is_dir()), key=lambda time: time.name)
            for time in times[:-KEPT_RESULTS]:
                shutil.rmtree(time)
