"""What lies on disk, held against the ledger, and the ledger against a checkpoint that somebody has kept.

Also what another engine fails at or would not notice: files that it could not read, rows that were rewritten.
"""

from __future__ import annotations

import datetime as dt
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow.fs as pafs

from jobs.conf import PipelineConf
from jobs.errors import NothingPublishedError, TamperedError
from jobs.printable import nobody
from jobs.store import delta_log
from jobs.store.files import DataFile, batches_of, digest_of, digests_of, require_intact, unreadable
from jobs.store.ledger import Run, differing
from jobs.store.places import filesystem_of, table_path
from jobs.store.published import HISTORY, Noted, require_rows
from jobs.store.sealed import Sealed
from jobs.store.warehouse import TABLES, WRITTEN_TABLES, Warehouse
from namesrv_day.arrow.digest import Digest, Slice
from schemas import bronze, gold
from schemas.table import Table


@dataclass(frozen=True, slots=True)
class Checked:
    """What was checked, as which run published it; `wrong`: a sentence for each slice, table or file that is not so.

    `replaced`: what later runs have put in the place of files that the checkpoint covers, a sentence for each run and folder.
    """

    run_id: str
    tables: int
    slices: int
    wrong: list[str]
    replaced: list[str] = field(default_factory=list)


def check(warehouse: Warehouse, against: Noted | None = None, share: Callable[[int, int], None] = nobody) -> Checked:
    """Read every table as the last published run pins it, and compare every slice with its digest, every file with the chain.

    Bronze tables may have got rows since, which are no part of that run; what somebody else has changed since, and the next
    night would refuse, is wrong, too. `against`: a checkpoint that was kept, up to which nothing may be other than it was.
    `share` is told how many tables are done, of how many. Raises NothingPublishedError, LedgerBehindError.
    """
    last = warehouse.ledger().last
    if last is None:
        raise NothingPublishedError(f"{warehouse.path}/gold/runs: no run with status 'published'; nothing to check")
    warehouse.require_ledger(whole=True)
    expected = warehouse.slices_in_force()
    judged = [table for table in WRITTEN_TABLES if table.name in last.versions]
    wrong = dict[str, None]()
    for number, table in enumerate(judged):
        share(number, len(judged))
        wrong |= dict.fromkeys(_wrong(warehouse, table, last, expected))
    damaged = {sentence.partition(" of ")[0].partition(":")[0] for sentence in wrong}
    found = Sealed(warehouse, last, damaged)
    wrong |= dict.fromkeys(found.wrong())
    replaced = list[str]()
    if against is not None:
        link = found.chain.links.get(against.run_id)
        if link is None or link.sha256 != against.sha256:
            how = (
                "is not in it any more" if link is None else f"has {link.sha256}, the checkpoint says {against.sha256}"
            )
            where = table_path(warehouse.path, gold.RUNS)
            said = f"runs: {where} was rewritten: run {against.run_id}, which the checkpoint names, {how}"
            return Checked(last.run_id, len(judged), len(expected), [said, *wrong])
        wrong |= dict.fromkeys(found.wrong_since(against.run_id))
        replaced = found.replaced
    if not wrong and (is_ours := warehouse.is_history_ours()) is not True:
        where = f"{warehouse.path}/{HISTORY}"
        if is_ours is None:
            replaced += [f"{where} is of another run or version, or names other files"] if against else []
        else:
            wrong[f"{where}: is not as this software makes it; without it the next run does"] = None
    return Checked(last.run_id, len(judged), len(expected), list(wrong), replaced)


def _wrong(warehouse: Warehouse, table: Table, run: Run, expected: Mapping[Slice, Digest]) -> Iterator[str]:
    try:
        found = differences(warehouse, table, run, expected)
        yield from found
        warehouse.require_published(table)
        if not found and warehouse.rearranged(table) != run.versions[table.name]:
            warehouse.hold([table])  # the same rows in other files, from which the next night starts
    except TamperedError as error:
        yield error.said


# -- before something is read ------------------------------------------------------------------------------------------


def require_readable(root: str, versions: Mapping[str, int], said: str, *, deep: bool = False) -> None:
    """Raise TamperedError for a log, or the first data file, that cannot be read of tables at `versions`.

    Looked for are files that are not there or have other bytes than the log says; those that the failure `said` names, or if
    it is to go `deep` all, are read.
    """
    for name, number in versions.items():
        files = delta_log.Version(root, TABLES[name], number).files()
        require_files(root, TABLES[name], files, said, deep=deep)


def require_files(root: str, table: Table, files: Sequence[DataFile], said: str = "", *, deep: bool = False) -> None:
    """Raise TamperedError for the first of the files of a table that cannot be read; see `require_readable`."""
    system, folder = filesystem_of(table_path(root, table))
    # One listing of the folder: asked for one by one, files of an object store are a request each.
    listed = system.get_file_info(pafs.FileSelector(folder, recursive=True, allow_not_found=True)) if files else []
    sizes = {info.path: info.size for info in listed}
    for file in files:
        size = sizes.get(f"{folder}/{file.path}")
        if size != file.size:
            found = "it is not there" if size is None else f"it has {size} bytes, the log says {file.size}"
            raise unreadable(root, table, file.path, found)
        if deep or posixpath.basename(file.path) in said:
            for _ in batches_of(root, table, [file]):
                pass


def differences(warehouse: Warehouse, table: Table, run: Run, expected: Mapping[Slice, Digest]) -> list[str]:
    """Return a sentence for each slice of a table, as a run pinned it, that is not what the ledger says. Raises TamperedError.

    `expected`: the slices in force as of that run; of a table that is not cut by day the run has the digest.
    """
    files = warehouse.files_of(run, table, warehouse.ledger().days)
    if table.partition_by:
        slices = {cut: digest for cut, digest in expected.items() if cut.table == table.name}
        wrong = differing(digests_of(warehouse.path, table, files), slices)
    else:
        known, found = run.digests.get(table.name), digest_of(warehouse.path, table, files)
        where = table_path(warehouse.path, table)
        is_same = known in (None, found)
        wrong = [] if is_same else [f"{table.name}: rows of {where} have digest {found}, the ledger says {known}"]
    if not wrong:
        require_intact(warehouse.path, table, files)
    return wrong


def require_whole(warehouse: Warehouse) -> None:
    """Raise TamperedError unless every file that the last run published is there, and the small tables are what it left.

    Of topic_configs, which may be large, each row is held against its digest where it is used.
    """
    last = warehouse.ledger().last
    if last is None:
        return
    for name in last.versions:
        files = warehouse.files_of(last, TABLES[name])
        require_all(warehouse.path, last, TABLES[name], files)
        require_files(warehouse.path, TABLES[name], files)
    # Where maintenance has put files together, the night reads these.
    warehouse.hold(
        table for table in bronze.TABLES if not table.partition_by and table is not bronze.TOPIC_CONFIGS_TABLE
    )


def require_all(root: str, run: Run, table: Table, files: Sequence[DataFile]) -> None:
    """Raise BrokenLogError if a log does not name all rows of a table that a run published. No file is opened."""
    digest = run.digests.get(table.name)
    said = None if digest is None else str(digest)
    require_rows(table.name, [file.rows for file in files], said, table_path(root, table))


class Holder:
    """Holds tables against the ledger before they are asked, each once."""

    def __init__(self, warehouse: Warehouse, run: Run) -> None:
        """Hold the ledger itself; `run`: as of which is asked. Raises LedgerBehindError."""
        warehouse.require_ledger(whole=True)
        self._warehouse, self._run, self._held = warehouse, run, set[str]()
        self._expected = warehouse.slices_in_force(known_at=run)

    @classmethod
    def at(cls, warehouse: str, run_id: str) -> Holder:
        """Return one for a published run of a warehouse."""
        opened = Warehouse(warehouse, PipelineConf(), "held", dt.datetime.now(dt.timezone.utc))
        return cls(opened, opened.published_run(run_id))

    def hold(self, name: str) -> None:
        """Raise TamperedError unless all slices of a table are what the ledger says; the ledger's own tables were held before."""
        if name in self._held or name not in self._run.versions:
            return
        wrong = differences(self._warehouse, TABLES[name], self._run, self._expected)
        if wrong:
            more = f" ({len(wrong) - 1} more partitions differ)" if len(wrong) > 1 else ""
            raise TamperedError(f"{wrong[0]}{more}")
        self._held.add(name)
