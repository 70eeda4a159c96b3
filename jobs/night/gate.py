"""The gate: rules that must hold before anything is published. Great Expectations validates the counts; Data Docs show the results.

The pages are our own, made from its results: plain HTML that a browser shows without a network.
"""

from __future__ import annotations

import datetime as dt
import importlib
import json
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from jinja2 import Template

from jobs.conf import PipelineConf
from jobs.errors import GateError
from jobs.store.places import local_path, write_text
from jobs.store.warehouse import Warehouse
from namesrv_day.rules import Measurement, measure
from schemas import bronze
from schemas.rules import TABLES

SMALL = tuple(table for table in bronze.TABLES if not table.partition_by)
"""The tables that are not cut by day: the driver checks them."""
KEPT_RESULTS = 10
"""Results that Data Docs keep, as `results/<time>.json`, by table in Great Expectations' form; `index.html` shows the last."""

_TIME = "%Y%m%dT%H%M%S.%fZ"
_log = logging.getLogger(__name__)


def measured_small(warehouse: Warehouse, days: Collection[dt.date]) -> list[Measurement]:
    """Return the counted rules of the tables that are not cut by day, and of quarantine on `days`."""
    frames = {table.name: warehouse.rows(table) for table in SMALL}
    frames[bronze.QUARANTINE.name] = warehouse.rows(bronze.QUARANTINE, days)  # few rows a day
    # Files whose run has rows on these days, and the files given to this run.
    sources, wanted = frames[bronze.SOURCES.name], set(days)
    on_days = pa.array([not wanted.isdisjoint(of) for of in sources["days"].to_pylist()], pa.bool_())
    frames[bronze.SOURCES.name] = sources.filter(pc.or_(on_days, pc.equal(sources["ingest_run"], warehouse.run_id)))
    return measure(frames)


def require_sound(warehouse: Warehouse, measurements: Sequence[Measurement]) -> list[str]:
    """Validate the counted rules, and write the Data Docs; return warnings. Raises GateError if a critical rule is broken.

    Rules over no rows are left out: they show nothing, but take as long to validate as others.
    """
    verdict = validate([one for one in measurements if one.rows != 0], docs_dir(warehouse))
    broken = [*verdict.critical, *(f"{rule} (not judged)" for rule in verdict.skipped)]
    if broken:
        raise GateError(f"{'; '.join(broken)}; see {verdict.docs_path}", is_of_files=are_of_files(measurements))
    return list(verdict.warnings)


def require_unbroken(measurements: Sequence[Measurement]) -> None:
    """Raise GateError if a critical rule is broken, or could not be counted. Writes nothing."""
    broken = [f"{one.table}.{one.rule}" for one in measurements if _is_shut(one)]
    if broken:
        raise GateError("; ".join(broken), is_of_files=are_of_files(measurements))


def _is_shut(one: Measurement) -> bool:
    return bool(one.missing or (one.broken and one.severity == "critical"))


def are_of_files(measurements: Iterable[Measurement]) -> bool:
    """Return whether an input file may have caused the broken critical rules.

    Ingest lets no row pass that breaks a rule about single recorded rows, so somebody else must have brought such a row.
    """
    broken = filter(_is_shut, measurements)
    return not any(one.missing or (TABLES[one.table].layer == "bronze" and one.kind == "row") for one in broken)


def are_too_many(verify: Mapping[str, Any], conf: PipelineConf) -> bool:
    """Return whether more answers mismatch than the configuration tolerates. `verify`: of a run's report."""
    wrong = verify.get("mismatched", 0)
    answers = verify.get("answers", 0) + sum(other["answers"] for other in verify.get("others", {}).values())
    return bool(wrong > conf.mismatched_min and wrong > conf.mismatched_share_max * answers)


def docs_dir(warehouse: Warehouse) -> Path:
    """Return the folder of the Data Docs."""
    return (local_path(warehouse.path) or Path.cwd()) / "data_docs"


# -- the validation ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gate's verdict. Rules are named `table.rule`; only broken critical ones keep the gate shut."""

    critical: list[str]
    warnings: list[str]
    skipped: list[str]
    docs_path: Path


def prepare(after: Callable[[], object]) -> None:
    """Load Great Expectations, which takes seconds, in a thread; the thread calls `after` first and waits for it."""

    def load() -> None:
        after()
        importlib.import_module("jobs.night.expectations")

    threading.Thread(target=load, daemon=True).start()


def validate(measurements: Iterable[Measurement], docs_dir: Path) -> Verdict:
    """Return the verdict of Great Expectations on `measurements`, and write its Data Docs into `docs_dir`.

    One suite per table, one expectation per rule: no row breaks it. A rule that could not be counted is skipped: it fails as
    information and does not shut the gate. Samples stay out of the docs, because they hold what strangers sent.
    """
    from jobs.night.expectations import validated  # noqa: PLC0415  a slow import that only a validation needs

    by_table: dict[str, list[Measurement]] = {}
    for m in measurements:
        by_table.setdefault(m.table, []).append(m)
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
    found = {table: result.to_json_dict() for table, result in validated(by_table)}
    named = _broken(found)
    _write_docs(docs_dir, found)
    return Verdict(named["critical"], named["warning"], named["info"], docs_dir / "index.html")


def _broken(results: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the names of the broken rules in results by table, by severity."""
    named: dict[str, list[str]] = {"critical": [], "warning": [], "info": []}
    for table, result in results.items():
        for config in (rule["expectation_config"] for rule in result["results"] if not rule["success"]):
            named[config["severity"]].append(f"{table}.{config['kwargs']['column']}")
    return named


def _write_docs(docs: Path, results: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the results and the page of a validation, and delete all but the last KEPT_RESULTS."""
    folder, now = docs / "results", dt.datetime.now(dt.timezone.utc).strftime(_TIME)
    folder.mkdir(parents=True, exist_ok=True)
    others = []
    for number, path in enumerate(sorted(folder.glob("*.json"), reverse=True), start=1):
        if number >= KEPT_RESULTS:
            path.unlink()
            path.with_suffix(".html").unlink(missing_ok=True)
            continue
        broken = [rule for rules in _broken(json.loads(path.read_text(encoding="utf-8"))).values() for rule in rules]
        others.append((path.with_suffix(".html").name, _shown(path.stem), broken))
    template = Template(
        Path(__file__).with_name("docs.html").read_text("utf-8"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    page = partial(template.render, tables=results, when=_shown(now))
    texts = {
        folder / f"{now}.json": json.dumps(results, indent=1),
        folder / f"{now}.html": page(others=[]),
        docs / "index.html": page(others=[(f"{folder.name}/{file}", time, broken) for file, time, broken in others]),
    }
    for path, text in texts.items():
        write_text(str(path), text)


def _shown(time: str) -> str:
    return dt.datetime.strptime(time, _TIME).replace(tzinfo=dt.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
