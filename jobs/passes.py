"""Who calls the passes of a night: Spark, on any number of machines, or processes of this one.

A pass is one function and the pieces of work that it is called with. The pieces are small (names of files, settings of a name
server); what is large lies in files, which each call opens and writes itself.
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
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from jobs.errors import JobError, UsageError
from jobs.printable import nobody
from jobs.processes import cores, give_back, rarely_collected
from jobs.spark_options import is_local, is_meant_for_cluster
from jobs.store.places import local_path, write_text

if TYPE_CHECKING:  # who works without it has none perhaps
    from pyspark.sql import SparkSession

P = TypeVar("P")
R = TypeVar("R")
_PRELOADED = ("jobs.ingest.series", "jobs.ingest.reading", "jobs.night.condensing", "jobs.night.judging")
_ADAPTIVE = "spark.sql.adaptive.enabled"
_DONE = pa.schema([("number", pa.int64()), ("done", pa.binary())])
# Pieces of work are much alike, and all go to each task.
_QUICKLY = 1
_EVERY_S = 0.5
# Executors come one after the other: how many were there at first says little. So many pieces at least keep a small cluster busy.
_LEAST_ON_CLUSTER = 16


class Passes(Protocol):
    """Calls a function once for each piece of work."""

    share: Callable[[float, int], None]
    """Is told how many pieces of a pass are done, those under way in part, of how many."""

    @property
    def width(self) -> int:
        """Return how many pieces are worked on at once: so many tasks keep all cores busy."""
        ...

    def require_shared(self) -> None:
        """Raise UsageError if those that do the work do not see the warehouse."""
        ...

    def each(self, task: Callable[[P], R], work: Sequence[P]) -> list[R]:
        """Return what `task` returns for each piece of work, in their order. Raises what a task raises, or a TaskError for it.

        A piece may be worked on more than once (a lost executor, speculation); only what is returned counts.
        """
        ...


class TaskError(Exception):
    """A task could not go on with its rows; the message is its trace."""


OF_ROWS = (
    *(ValueError, LookupError, TypeError, ArithmeticError, AttributeError, AssertionError, RecursionError),
    TaskError,
)
"""What a task raises that cannot go on with its rows: it would do so again, wherever it is tried."""


class InProcess:
    """One process without a JVM."""

    def __init__(self, width: int = 1) -> None:
        self.width = width
        self.share: Callable[[float, int], None] = nobody

    def require_shared(self) -> None:
        """See `Passes`: this process sees what it sees."""

    def each(self, task: Callable[[P], R], work: Sequence[P]) -> list[R]:
        """See `Passes`."""
        with _told(self.share, len(work)) as folder:
            return [_done(task, piece, place) for piece, place in zip(work, _places(folder, len(work)), strict=True)]


class Processes(InProcess):
    """A pool of processes of this machine, without a JVM."""

    def each(self, task: Callable[[P], R], work: Sequence[P]) -> list[R]:
        """See `Passes`."""
        if min(self.width, len(work)) < 2:
            return super().each(task, work)
        # Not forked from here, where threads may run; what all need is imported once.
        context = get_context("forkserver")
        context.set_forkserver_preload([*_PRELOADED])
        with (
            _told(self.share, len(work)) as folder,
            ProcessPoolExecutor(min(self.width, len(work)), context, give_back) as pool,
        ):
            return _sound([*pool.map(partial(_called, task, note=None), work, _places(folder, len(work)))])


def for_files(passes: Passes) -> Passes:
    """Return who works on much at once: instead of one process alone as many as there are cores."""
    if type(passes) is not InProcess or passes.width > 1:
        return passes
    several = Processes(cores())
    several.share = passes.share
    return several


def note_in(warehouse: Path) -> Path:
    """Write a note into the staging folder of a warehouse for tasks to find; return it. It says what it is called."""
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
    """Tasks of a Spark job: pieces of work grouped by their number, one group a task.

    On a cluster each task looks first whether it sees the `warehouse`, if that is a folder.
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
        return max(seen, _LEAST_ON_CLUSTER, executors * max(cores, 1))

    def require_shared(self) -> None:
        """See `Passes`. One machine need not be asked, nor waited for."""
        if self._folder is not None and is_meant_for_cluster():
            self.each(abs, range(self.width))

    def each(self, task: Callable[[P], R], work: Sequence[P]) -> list[R]:
        """See `Passes`."""
        if not work:
            return []
        spark = self._session()
        is_one_machine = is_local(spark.sparkContext.master)
        note = None if is_one_machine or self._folder is None else note_in(self._folder)
        pieces = [zlib.compress(pickle.dumps(piece), _QUICKLY) for piece in work]
        # Spark knows that each number is in one part alone, and moves none to make groups of them.
        numbers = spark.range(0, len(work), 1, len(work)).withColumnRenamed("id", "number")
        # Spark keeps to its plan: that there are so many tasks it need not find out behind a stage, which takes as long again.
        before = spark.conf.get(_ADAPTIVE, "true") or "true"
        spark.conf.set(_ADAPTIVE, "false")
        # On a cluster on which all see only an object store, Spark's own bars tell.
        seen = None if note is None else str(note.parent)
        try:
            with _told(self.share if is_one_machine or note else nobody, len(work), seen) as folder:
                calling = _calling(task, pieces, note, _places(folder, len(work)))
                done = numbers.groupBy("number").applyInArrow(calling, "number LONG, done BINARY").toArrow()
        finally:
            spark.conf.set(_ADAPTIVE, before)
        found = dict(zip(done.column("number").to_pylist(), done.column("done").to_pylist(), strict=True))
        # Written by our own tasks of this run: nothing from outside is ever unpickled.
        results = [pickle.loads(found[number]) for number in range(len(work))]  # noqa: S301
        return _sound(results)


# -- how far a pass is ----------------------------------------------------------------------------


class _Here:
    """The piece of work of this process: where its share is told, and when it was."""

    place: Path | None = None
    told = 0.0


def tell(share: float) -> None:
    """Say what share of the piece of work under way is done, 0 to 1."""
    now = time.monotonic()
    if _Here.place is not None and (share == 1 or now - _Here.told >= _EVERY_S):
        _Here.told = now
        # Behind what it said before: who looks in between finds that. Who waited may have gone.
        with suppress(OSError), _Here.place.open("ab") as file:
            file.write(struct.pack("d", share))


@contextmanager
def _told(share: Callable[[float, int], None], of: int, seen: str | None = None) -> Iterator[str | None]:
    """Tell `share` how far `of` pieces are, by the files that they write into the folder given, below one that all see."""
    if share is nobody:
        yield None
        return
    over = Event()
    with tempfile.TemporaryDirectory(prefix="shares-", dir=seen, ignore_cleanup_errors=True) as folder:

        def look() -> None:
            while not over.wait(_EVERY_S):
                told = [path.read_bytes() for path in Path(folder).iterdir()]
                share(sum(struct.unpack("d", one[-8:])[0] for one in told if one), of)

        thread = Thread(target=look, daemon=True)
        thread.start()
        try:
            yield folder
        finally:
            over.set()
            thread.join()


def _places(folder: str | None, count: int) -> list[Path | None]:
    return [None if folder is None else Path(folder) / str(number) for number in range(count)]


def _sound(results: list[Any]) -> list[Any]:
    """Return what tasks have returned. Raises what the first one has raised that did."""
    failed = next((result for result in results if isinstance(result, (JobError, TaskError))), None)
    if failed is not None:
        raise failed
    return results


def _done(task: Callable[[P], R], piece: P, place: Path | None) -> R:
    """Return what a task returns. It makes rows by the thousand and hardly a cycle."""
    _Here.place = place
    with rarely_collected():
        result = task(piece)
    tell(1)
    return result


def _called(task: Callable[[P], R], piece: P, place: Path | None, note: Path | None) -> R | JobError | TaskError:
    """Return what a task returns, or the failure that it raises: Spark would make a text of it, and try again."""
    try:
        if note is not None:
            require_seen(note)
        return _done(task, piece, place)
    except JobError as error:
        return error
    except OF_ROWS:
        return TaskError(traceback.format_exc())


def _calling(
    task: Callable[[P], R], pieces: Sequence[bytes], note: Path | None, places: Sequence[Path | None]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def call(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Behind each task Spark's worker has Python look through all that is there, modules too, while the next one waits.
        gc.freeze()
        for batch in batches:
            for number in batch.column("number").to_pylist():
                piece = pickle.loads(zlib.decompress(pieces[number]))  # noqa: S301  as above
                done = pickle.dumps(_called(task, piece, places[number], note))
                yield pa.RecordBatch.from_pylist([{"number": number, "done": done}], schema=_DONE)

    return call
