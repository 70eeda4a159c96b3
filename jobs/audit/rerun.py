"""A night from the recorded events alone, in a folder of its own, and what its tables say otherwise than the published ones.

Reads   what a published run has pinned: bronze tables for the night, gold tables to compare with
Writes  a warehouse in the given folder, whose bronze tables are links to the files that the run has pinned
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jobs.ask.engine import Answers
from jobs.conf import NamesrvConf, PipelineConf
from jobs.errors import TamperedError
from jobs.night import nightly
from jobs.night.nightly import Asked, Shows
from jobs.passes import InProcess
from jobs.store.damage import Holder
from jobs.store.files import read_files
from jobs.store.ledger import run_known_at
from jobs.store.places import table_path
from jobs.store.published import sha256_of_file
from jobs.store.warehouse import DATA_TABLES, Warehouse
from namesrv_core.inference.settings import ADDRESSES, VERSION, value_of
from namesrv_day.audit.content import Difference, compare_tables
from schemas import bronze, gold
from schemas.table import Table

Files = dict[str, dict[str, str]]
"""By bronze table and path below the warehouse: the SHA-256 of the bytes."""


def linked(warehouse: Warehouse, run_id: str, folder: Path) -> Files:
    """Make in `folder` the bronze tables that a published run of a warehouse has pinned, of links; return their files.

    Raises TamperedError where one of the tables is not what the ledger says.
    """
    run = run_known_at(warehouse.rows(gold.RUNS), run_id)
    if run is None:
        raise TamperedError(f"{table_path(warehouse.path, gold.RUNS)}: run {run_id} is not in it any more")
    holder, files = Holder(warehouse, run), Files()
    # Rows are taken for read where the run that wrote them has noted its files.
    read_by = read_files(warehouse.path, bronze.SOURCES, warehouse.files_of(run, bronze.SOURCES), ["ingest_run"])
    again = Warehouse(str(folder), warehouse.conf, read_by["ingest_run"][0].as_py(), warehouse.started)
    for table in bronze.TABLES:
        holder.hold(table.name)
        pinned = warehouse.files_of(run, table)
        for file in pinned:
            source = Path(table_path(warehouse.path, table), file.path).resolve()
            link = Path(table_path(again.path, table), file.path)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(source)
            files.setdefault(table.name, {})[f"{table.layer}/{table.name}/{file.path}"] = sha256_of_file(str(source))
        if pinned:
            again.change(table, pinned)
    again.commit()
    return files


def rerun(conf: PipelineConf, folder: Path, console: Shows) -> Answers:
    """Run the night over what was `linked`, and return what it has published. Raises TamperedError where it is refused."""
    warehouse = Warehouse(str(folder), conf, "audit", dt.datetime.now(dt.timezone.utc))
    summary = nightly.run(warehouse, InProcess(), Asked(), console)
    if summary.status == "refused":
        raise TamperedError(f"a run from the recorded events alone is refused: {summary.gate}")
    return Answers(str(folder), is_closed=False)  # what is recorded lies elsewhere


def given(answers: Answers) -> list[dict[str, Any]]:
    """Return the settings of name servers that the published run was given, by whatever file or option: these are believed."""
    names = ("namesrv_id", "setting", "value")
    rows = f"SELECT DISTINCT {', '.join(names)} FROM namesrv_settings WHERE source = 'given' ORDER BY ALL"  # noqa: S608  names of ours
    return [row for row in answers.ask(rows).dicts() if row["setting"] != ADDRESSES]


def configured(answers: Answers, conf: PipelineConf) -> PipelineConf:
    """Return settings with those in them that the published run was given."""
    namesrvs = dict(conf.namesrvs)
    for one in given(answers):
        said, name, text = namesrvs.get(one["namesrv_id"], NamesrvConf()), one["setting"], one["value"]
        changed: dict[str, Any] = {"version": text}
        if name != VERSION:
            changed = {"settings": {**said.settings, name: value_of(name, text)}}
        namesrvs[one["namesrv_id"]] = dataclasses.replace(said, **changed)
    return dataclasses.replace(conf, namesrvs=namesrvs, join_addresses=False)


def differing(published: Answers, again: Answers, tables: Iterable[Table] = DATA_TABLES) -> list[Difference]:
    """Return how each gold table that is published differs (left) from that of the night from the events alone (right)."""
    return [
        compare_tables(table.name, *(of.table(f"SELECT * FROM {table.name}") for of in (published, again)))  # noqa: S608  names of ours
        for table in tables
    ]
