"""Run the passes of a night: as tasks of a Spark job on any number of machines, or in processes of this machine.

A pass is one function and the pieces of work that it is called with. The pieces are small (file names, settings of a name
server). Large data lies in files, which each call opens and writes itself.
"""

from __future__ import annotations

import gc
import pickle
import socket
import struct
import tempfile
import time
import traceback
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from jobs.errors import JobError, UsageError, nobody
from jobs.processes import cores, end_with_parent, give_back, meanwhile, rarely_collected
from jobs.session import is_local, is_meant_for_cluster
from jobs.store.places import local_path, write_text

if TYPE_CHECKING:  # a run without Spark may not have it installed
    from pyspark.sql import SparkSession

P = TypeVar("P")
R = TypeVar("R")
_PRELOADED = ("jobs.ingest.series", "jobs.ingest.reading", "jobs.night.condensing", "jobs.night.replaying")
_ADAPTIVE = "spark.sql.adaptive.enabled"
_DONE = pa.schema([("number", pa.int64()), ("done", pa.binary())])
# Each task receives all pieces, and they are much alike: the fastest zlib level is enough.
_ZLIB_FASTEST = 1
_EVERY_S = 0.5
# Executors register one after the other, so the count at first says little. This many pieces keep a small cluster busy.
_MIN_ON_CLUSTER = 16


class Passes(Protocol):
    """Calls a function once for each piece of work."""

    share: Callable[[float, int], None]
    """Callback for progress: the number of finished pieces (those under way count in part), and the number of all pieces."""

    @property
    def width(self) -> int:
        """Return how many pieces run at once: this many tasks keep all cores busy."""
        ...

    def require_shared(self) -> None:
        """Raise UsageError if the workers do not see the warehouse."""
        ...

    def each(self, task: Callable[[P], R], work: Sequence[P]) -> list[R]:
        """Return the results of `task` for each piece of work, in order. Raises the task's own error, or a TaskError for it.

        A piece may run more than once (a lost executor, speculation); only the returned result counts.
        """
        ...


class TaskError(Exception):
    """A task failed on its rows; the message is its traceback."""


OF_ROWS = (
    *(ValueError, LookupError, TypeError, ArithmeticError, AttributeError, AssertionError, RecursionError),
    TaskError,
)
"""Errors of a task that its rows cause: a retry would fail in the same way, wherever it runs."""


class InProcess:
    """One process without a JVM."""

    def __init__(self, width: int = 1) -> None:
        self.width = width
        self.share: Callable[[float, int], None] = nobody

    def require_shared(self) -> None:
        """See `Passes`: there is nothing to check within one process."""

    def each(self, task: Callable[[P], R], work: Sequence[P]) -> list[R]:
        """See `Passes`."""
        with _reporting(self.share, len(work)) as folder:
            return [_done(task, piece, place) for piece, place in zip(work, _files_for(folder, len(work)), strict=True)]


def _set_up() -> None:
    end_with_parent()
    give_back()


class Processes(InProcess):
    """A pool of processes of this machine, without a JVM."""

    def each(self, task: Callable[[P], R], work: Sequence[P]) -> list[R]:
        """See `Passes`."""
        if min(self.width, len(work)) < 2:
            return super().each(task, work)
        # No fork: other threads may be running in this process. The fork server imports what all workers need once.
        context = get_context("forkserver")
        context.set_forkserver_preload([*_PRELOADED])
        with (
            _reporting(self.share, len(work)) as folder,
            ProcessPoolExecutor(min(self.width, len(work)), context, _set_up) as pool,
        ):
            return _or_raise([*pool.map(partial(_outcome, task, note=None), work, _files_for(folder, len(work)))])


def for_files(passes: Passes) -> Passes:
    """Return passes that are wide enough for many files: a single process becomes a pool with one process a core."""
    if type(passes) is not InProcess or passes.width > 1:
        return passes
    several = Processes(cores())
    several.share = passes.share
    return several


def note_in(warehouse: Path) -> Path:
    """Write a note into the staging folder of a warehouse, for tasks to find, and return its path. Its content is its name."""
    note = warehouse / "_staging" / f"seen-{uuid.uuid4().hex}"
    note.parent.mkdir(parents=True, exist_ok=True)
    write_text(str(note), note.name)
    return note


def require_seen(note: Path) -> None:
    """Raise UsageError if this machine does not see a note of the driver."""
    if note.is_file() and note.read_bytes() == note.name.encode():
        return
    raise UsageError(
        f"{note.parents[1]}: an executor on {socket.gethostname()} does not see what the driver on this machine writes there. "
        "Driver and executors need the warehouse under one path, on a file system that all of them mount, or in an "
        "object store (docs/cluster.md). Nothing was published"
    )


class OnSpark:
    """Tasks of a Spark job: pieces of work are grouped by their number, one group a task.

    If the `warehouse` is a folder, each task on a cluster first checks that it sees it.
    """

    def __init__(self, session: Callable[[], SparkSession], warehouse: str | None = None) -> None:
        self._session = session
        self._folder = None if warehouse is None else local_path(warehouse)
        self.share: Callable[[float, int], None] = nobody

    @property
    def width(self) -> int:
        """See `Passes`."""
        context = self._session().sparkContext
        seen = max(1, context.defaultParallelism)
        if is_local(context.master):
            return seen
        executors, cores = (
            int(context.getConf().get(f"spark.{name}", "0") or 0) for name in ("executor.instances", "executor.cores")
        )
        return max(seen, _MIN_ON_CLUSTER, executors * max(cores, 1))

    def require_shared(self) -> None:
        """See `Passes`. On a single machine there is nothing to check, and no job to wait for."""
        if self._folder is not None and is_meant_for_cluster():
            self.each(abs, range(self.width))

    def each(self, task: Callable[[P], R], work: Sequence[P]) -> list[R]:
        """See `Passes`."""
        if not work:
            return []
        spark = self._session()
        is_one_machine = is_local(spark.sparkContext.master)
        note = None if is_one_machine or self._folder is None else note_in(self._folder)
        pieces = [zlib.compress(pickle.dumps(piece), _ZLIB_FASTEST) for piece in work]
        # Spark knows that each number is in one partition only, so it groups them without a shuffle.
        numbers = spark.range(0, len(work), 1, len(work)).withColumnRenamed("id", "number")
        # Adaptive execution would first run a stage to find out the number of tasks, which doubles the time.
        before = spark.conf.get(_ADAPTIVE, "true") or "true"
        spark.conf.set(_ADAPTIVE, "false")
        # If the executors share only an object store with the driver, there is no progress but Spark's own progress bar.
        seen = None if note is None else str(note.parent)
        try:
            with _reporting(self.share if is_one_machine or note else nobody, len(work), seen) as folder:
                calling = _arrow_task(task, pieces, note, _files_for(folder, len(work)))
                done = numbers.groupBy("number").applyInArrow(calling, "number LONG, done BINARY").toArrow()
        finally:
            spark.conf.set(_ADAPTIVE, before)
        found = dict(zip(done.column("number").to_pylist(), done.column("done").to_pylist(), strict=True))
        # Our own tasks of this run wrote these: nothing from outside is ever unpickled.
        results = [pickle.loads(found[number]) for number in range(len(work))]  # noqa: S301
        return _or_raise(results)


# -- progress of a pass ---------------------------------------------------------------------------


class _Progress:
    """The piece of work of this process: the file for its progress, and when progress was last written."""

    place: Path | None = None
    written_at = 0.0


def tell(share: float) -> None:
    """Report the finished share of the piece of work under way, 0 to 1."""
    now = time.monotonic()
    if _Progress.place is not None and (share == 1 or now - _Progress.written_at >= _EVERY_S):
        _Progress.written_at = now
        # Appended, so a reader always finds a whole value. The folder may be gone if the driver no longer waits.
        with suppress(OSError), _Progress.place.open("ab") as file:
            file.write(struct.pack("d", share))


@contextmanager
def _reporting(share: Callable[[float, int], None], of: int, seen: str | None = None) -> Iterator[str | None]:
    """Report progress of `of` pieces to `share`: they write it to files in the yielded folder, which is made below `seen`."""
    if share is nobody:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="shares-", dir=seen, ignore_cleanup_errors=True) as folder:

        def look() -> None:
            shares = [path.read_bytes() for path in Path(folder).iterdir()]
            share(sum(struct.unpack("d", one[-8:])[0] for one in shares if one), of)

        with meanwhile(_EVERY_S, look):
            yield folder


def _files_for(folder: str | None, count: int) -> list[Path | None]:
    return [None if folder is None else Path(folder) / str(number) for number in range(count)]


def _or_raise(results: list[Any]) -> list[Any]:
    """Return the results of tasks. Raises the first failure among them."""
    failed = next((result for result in results if isinstance(result, (JobError, TaskError))), None)
    if failed is not None:
        raise failed
    return results


def _done(task: Callable[[P], R], piece: P, place: Path | None) -> R:
    """Return the result of a task, with rare garbage collection: a task makes thousands of rows and hardly a cycle."""
    _Progress.place = place
    with rarely_collected():
        result = task(piece)
    tell(1)
    return result


def _outcome(task: Callable[[P], R], piece: P, place: Path | None, note: Path | None) -> R | JobError | TaskError:
    """Return the result of a task, or its failure as a value: Spark would turn an exception into text, and retry."""
    try:
        if note is not None:
            require_seen(note)
        return _done(task, piece, place)
    except JobError as error:
        return error
    except OF_ROWS:
        return TaskError(traceback.format_exc())


def _arrow_task(
    task: Callable[[P], R], pieces: Sequence[bytes], note: Path | None, places: Sequence[Path | None]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def call(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # After each task Spark's worker runs a full garbage collection, modules included, while the next task waits.
        gc.freeze()
        for batch in batches:
            for number in batch.column("number").to_pylist():
                piece = pickle.loads(zlib.decompress(pieces[number]))  # noqa: S301  as above
                done = pickle.dumps(_outcome(task, piece, places[number], note))
                yield pa.RecordBatch.from_pylist([{"number": number, "done": done}], schema=_DONE)

    return call
