"""Great Expectations judges what was counted, and shows it as Data Docs."""

from __future__ import annotations

import datetime as dt
import logging
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from namesrv_day.rules import Measurement

KEPT_RESULTS = 10
"""Judgements of one table that Data Docs keep."""
RESULTS = "results"
"""Folder of the results in the folder of the Data Docs, beside their pages."""
_log = logging.getLogger(__name__)


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
