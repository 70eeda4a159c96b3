"""Who calls the passes of a night: Spark, on any number of machines, or this process alone.

A pass is one function and the pieces of work that it is called with. The pieces are small (names of files, settings of a name
server); what is large lies in files, which each call opens and writes itself.
"""

from __future__ import annotations

import gc
import pickle
import traceback
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.errors import JobError
from jobs.processes import rarely_collected

P = TypeVar("P")
R = TypeVar("R")
_ADAPTIVE = "spark.sql.adaptive.enabled"
_DONE = pa.schema([("number", pa.int64()), ("done", pa.binary())])
# Pieces of work are much alike, and all go to each task.
_QUICKLY = 1


class Passes(Protocol):
    """Calls a function once for each piece of work."""

    @property
    def width(self) -> int:
        """Return how many pieces are worked on at once: so many packs keep all cores busy."""
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


@dataclass(frozen=True)
class Call(Generic[P, R]):
    """A task and a piece of its work: pieces of different tasks are one pass."""

    task: Callable[[P], R]
    piece: P


def call(one: Call[Any, Any]) -> Any:
    """Do one piece: the task of such a pass."""
    return one.task(one.piece)


class InProcess:
    """One process without a JVM."""

    def __init__(self, width: int = 1) -> None:
        self.width = width

    def each(self, task: Callable[[P], R], work: Sequence[P]) -> list[R]:
        """See `Passes`."""
        return [_done(task, piece) for piece in work]


class OnSpark:
    """Tasks of a Spark job: pieces of work grouped by their number, one group a task."""

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self._session = session

    @property
    def width(self) -> int:
        """See `Passes`."""
        return max(1, self._session().sparkContext.defaultParallelism)

    def each(self, task: Callable[[P], R], work: Sequence[P]) -> list[R]:
        """See `Passes`."""
        if not work:
            return []
        spark = self._session()
        pieces = [zlib.compress(pickle.dumps(piece), _QUICKLY) for piece in work]
        # Spark knows that each number is in one part alone, and moves none to make groups of them.
        numbers = spark.range(0, len(work), 1, len(work)).withColumnRenamed("id", "number")
        with _planned_once(spark):
            done = numbers.groupBy("number").applyInArrow(_calling(task, pieces), "number LONG, done BINARY").toArrow()
        found = dict(zip(done.column("number").to_pylist(), done.column("done").to_pylist(), strict=True))
        # Written by our own tasks of this run: nothing from outside is ever unpickled.
        results = [pickle.loads(found[number]) for number in range(len(work))]  # noqa: S301
        failed = next((result for result in results if isinstance(result, (JobError, TaskError))), None)
        if failed is not None:
            raise failed
        return results


@contextmanager
def _planned_once(spark: SparkSession) -> Iterator[None]:
    """Have Spark keep to its plan: that there are so many tasks it need not find out behind a stage, which takes as long again."""
    before = spark.conf.get(_ADAPTIVE, "true") or "true"
    spark.conf.set(_ADAPTIVE, "false")
    try:
        yield
    finally:
        spark.conf.set(_ADAPTIVE, before)


def _done(task: Callable[[P], R], piece: P) -> R:
    """Return what a task returns. It makes rows by the thousand and hardly a cycle."""
    with rarely_collected():
        return task(piece)


def _called(task: Callable[[P], R], piece: P) -> R | JobError | TaskError:
    """Return what a task returns, or the failure that it raises: Spark would make a text of it, and try again."""
    try:
        return _done(task, piece)
    except JobError as error:
        return error
    except OF_ROWS:
        return TaskError(traceback.format_exc())


def _calling(
    task: Callable[[P], R], pieces: Sequence[bytes]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def call(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Behind each task Spark's worker has Python look through all that is there, modules too, while the next one waits.
        gc.freeze()
        for batch in batches:
            for number in batch.column("number").to_pylist():
                piece = pickle.loads(zlib.decompress(pieces[number]))  # noqa: S301  as above
                done = pickle.dumps(_called(task, piece))
                yield pa.RecordBatch.from_pylist([{"number": number, "done": done}], schema=_DONE)

    return call
