"""What a task opens: rows of one name server, and no file in which there can be none of what it looks for."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from jobs.night.opened import Files
from tests.store.tiny import DAY, EXPIRED, ONE, TWO, removal, warehouse_at, write


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Return files of one name server, of the other, and of both."""
    warehouse = warehouse_at(tmp_path)
    rows = [(("a", ONE), ("b", ONE)), (("c", TWO),), (("d", ONE), ("e", TWO))]
    written = (write(warehouse, EXPIRED, DAY, *(removal(name, of) for name, of in some)) for some in rows)
    return Files(warehouse.path, {EXPIRED.name: tuple(written)})


def names(rows: pa.Table) -> list[str]:
    found: list[str] = rows["broker_name"].to_pylist()
    return found


def test_rows_are_one_name_server_s_whatever_files_they_are_in(files: Files) -> None:
    """In the order of the files; a file of nobody else need not say whose its rows are."""
    assert names(files.of(ONE).rows(EXPIRED)) == ["a", "b", "d"]
    assert names(files.of(TWO).rows(EXPIRED, ["broker_name"])) == ["c", "e"]
    assert names(files.of(TWO).rows(EXPIRED, ["broker_name"], pa.compute.field("broker_name") > "c")) == ["e"]
    assert (
        files.of("10.0.0.3:9876").rows(EXPIRED, ["broker_name"]).schema
        == files.of(ONE).rows(EXPIRED, ["broker_name"]).schema
    )
