"""Executors that do not share the warehouse: a sentence with what is to be shared, before anything is read, and no damage."""

from __future__ import annotations

import pickle
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.errors import EXIT_USAGE, UsageError
from jobs.passes import InProcess, OnSpark, _arrow_task, note_in
from jobs.session import is_local, is_meant_for_cluster
from tests.night.nights import Nights, night


def twice(number: int) -> int:
    """Return twice a number: a task."""
    return 2 * number


def done(note: Path | None, *pieces: int) -> list[Any]:
    """Return what tasks hand back, as Spark's worker calls them."""
    packed = [zlib.compress(pickle.dumps(piece)) for piece in pieces]
    batch = pa.record_batch({"number": pa.array(range(len(pieces)), pa.int64())})
    found = pa.Table.from_batches(_arrow_task(twice, packed, note, [None] * len(pieces))(iter([batch])))
    return [pickle.loads(one) for one in found["done"].to_pylist()]


def test_each_task_looks_whether_it_sees_the_warehouse(tmp_path: Path) -> None:
    """Where the note is not there, or another run's lies in its place, no piece is worked on, and the failure travels back."""
    note = note_in(tmp_path)
    assert done(note, 1, 2) == [2, 4]
    note.write_text("another", encoding="utf-8")
    for found in done(note, 1):
        assert isinstance(found, UsageError)
    note.unlink()
    (found,) = done(note, 1)
    assert (found.exit_code, str(tmp_path) in str(found)) == (EXIT_USAGE, True)
    assert "docs/cluster.md" in str(found)
    assert done(None, 1) == [2]


def test_a_night_looks_before_it_reads(nights: Nights, tmp_path: Path) -> None:
    """Nothing is ingested where those that would do the work do not see the warehouse."""

    class Apart(InProcess):
        def require_shared(self) -> None:
            raise UsageError("not shared")

    with pytest.raises(UsageError, match="not shared"):
        night(tmp_path / "w", nights.logs[0], passes=Apart())
    assert not (tmp_path / "w" / "bronze").exists()


class Context:
    """Stands for a SparkContext of a cluster of which one core has come so far."""

    master, defaultParallelism = "spark://10.0.0.1:7077", 1  # noqa: N815  Spark's own name

    def __init__(self, **conf: str) -> None:
        self.conf = {f"spark.executor.{name}": value for name, value in conf.items()}

    def getConf(self) -> dict[str, str]:  # noqa: N802  as above
        """Return its settings."""
        return self.conf


@pytest.mark.parametrize(
    ("conf", "width"), [({}, 16), ({"instances": "8", "cores": "4"}, 32), ({"instances": "2"}, 16)]
)
def test_work_is_not_cut_for_the_executors_of_the_first_second(conf: dict[str, str], width: int) -> None:
    """On a cluster pieces are for the executors that are meant, and never few; on one machine for its cores."""
    session: Any = type("Session", (), {"sparkContext": Context(**conf)})
    assert OnSpark(lambda: session).width == width
    session.sparkContext.master = "local[2]"
    assert OnSpark(lambda: session).width == 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("pyspark-shell", False),
        ("--master local[2] pyspark-shell", False),
        ("--master spark://10.0.0.1:7077 pyspark-shell", True),
        ("--conf spark.master=yarn pyspark-shell", True),
        ("--properties-file {file} pyspark-shell", True),
        ("--properties-file {file} --master 'local[*]' pyspark-shell", False),
    ],
)
def test_a_cluster_is_told_by_the_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str, *, expected: bool
) -> None:
    """Without a JVM, also by a file of settings: one machine does not wait for Spark before it reads."""
    file = tmp_path / "cluster.conf"
    file.write_text(
        "# a cluster\nspark.executor.cores 4\nspark.master   k8s://https://10.0.0.1:6443\n", encoding="utf-8"
    )
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", given.format(file=file))
    assert is_meant_for_cluster() is expected
    assert [is_local(master) for master in ("local", "local[*]", "local-cluster[2,1,1024]", "yarn", None)] == [
        *(True, True, False, False, True)
    ]
