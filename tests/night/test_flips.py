"""One bit of a published file is another one: whatever the file, nothing that follows is published, and `check` names it.

Files that maintenance has put together are among those of `torture flip`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from jobs.ask.engine import Answers
from jobs.cli.mcp import Server
from jobs.errors import TamperedError
from jobs.store.check import check
from jobs.store.files import sha256_in
from jobs.store.places import table_path
from jobs.store.published import LAST_RUN
from jobs.store.warehouse import WRITTEN_TABLES
from schemas import bronze, gold
from schemas.table import Table
from tests.ingest.given import warehouse_at
from tests.night.nights import night, rows
from tests.night.three_days import DAYS, beat, write_log

pytestmark = pytest.mark.slow

LATE_DAY = DAYS[1]
# Whatever the day of the new file, a night reads all of these, but of topic_configs what is asked for.
ALWAYS = [table.name for table in bronze.TABLES if not table.partition_by and table is not bronze.TOPIC_CONFIGS_TABLE]


def flipped(path: Path, place: int, bit: int) -> None:
    """Flip a bit of a file."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(data)


def published_files(warehouse: Path, table: Table) -> list[Path]:
    """Return the published files that a night with a late event of `LATE_DAY` reads."""
    days = [LATE_DAY] if table.partition_by else None
    return [
        Path(table_path(str(warehouse), table), file.path)
        for file in warehouse_at(warehouse).published_files(table, days)
    ]


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("late"), LATE_DAY, [beat("13:00:00")], "-late")


def refused(warehouse: Path, log: Path) -> str:
    """Return what a night on a new log says that is refused; nothing is published."""
    before = (warehouse / LAST_RUN).read_text(encoding="utf-8")
    with pytest.raises(TamperedError) as error:
        night(warehouse, log)
    assert (warehouse / LAST_RUN).read_text(encoding="utf-8") == before
    assert "published" not in [run["status"] for run in rows(warehouse, gold.RUNS)[3:]]
    return str(error.value)


def test_no_flip_is_published(copied: Path, late: Path) -> None:
    """In each table of which there is a file: a bit somewhere, in rows or in the footer, and a night that adds to the day.

    It is refused with the name of the table; `check` says it, too, until the files are as they were.
    """
    chance = random.Random("flips")  # the same ones each time
    read = [table for table in WRITTEN_TABLES if table.partition_by or table.name in ALWAYS]
    files = {table.name: found[-1] for table in read if (found := published_files(copied, table))}
    assert len(files) > 14
    whole = {name: path.read_bytes() for name, path in files.items()}
    damage = {name: (chance.randrange(len(data)), chance.randrange(8)) for name, data in whole.items()}
    for name, path in files.items():
        flipped(path, *damage[name])
        assert refused(copied, late).startswith(name), path
        path.write_bytes(whole[name])
    for name, path in files.items():
        flipped(path, *damage[name])
    wrong = check(warehouse_at(copied)).wrong
    assert [name for name in files if not any(sentence.startswith(name) for sentence in wrong)] == []
    for name, path in files.items():
        path.write_bytes(whole[name])
    assert check(warehouse_at(copied)).wrong == []


def occurrences(data: bytes, text: bytes) -> Iterator[int]:
    place = data.find(text)
    while place >= 0:
        yield place
        place = data.find(text, place + 1)


def test_a_name_with_another_letter_is_refused_with_its_table_and_day(
    copied: Path, late: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where nobody knows the bytes of a file, and its rows can be read: what is there less what is new is the ledger's."""
    monkeypatch.setattr("jobs.store.files.sha256_at", lambda _, __, path: sha256_in(path))
    (path,) = published_files(copied, bronze.REGISTRATIONS)
    whole, read = path.read_bytes(), pq.read_table(path, partitioning=None)
    changed = 0
    for place in occurrences(whole, b"broker-"):
        flipped(path, place, 4)  # rroker-
        if not pq.read_table(path, partitioning=None).equals(read):  # else it is a letter of what the footer says
            message = refused(copied, late)
            assert message.startswith(f"registrations of {LATE_DAY} (10.0.0.1:9876): its rows have digest ")
            changed += 1
        path.write_bytes(whole)
    assert changed
    assert night(copied, late).status == "published"


def test_a_footer_over_which_arrow_ends_the_process_is_named(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The type of a column chunk is no type any more: whoever looks at its statistics would not live to say so."""
    monkeypatch.setattr("jobs.store.check.WRITTEN_TABLES", [bronze.SOURCES])  # the others are as they were
    (path,) = published_files(copied, bronze.SOURCES)[-1:]
    whole = path.read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for place in range(footer, len(whole) - 8, 97):
        flipped(path, place, 0)
        wrong = check(warehouse_at(copied)).wrong
        assert {sentence.partition(": ")[0] for sentence in wrong} == {"sources"}
        path.write_bytes(whole)


def test_a_size_below_zero_over_which_duckdb_ends_its_session_is_named(copied: Path) -> None:
    """The size of a column chunk is negative: the file is named all the same, and who asks in a session goes on in another."""
    (path, *_) = published_files(copied, gold.EVENT_OUTCOMES)
    chunk = pq.read_metadata(path).row_group(0).column(0)
    sizes = [b"\x16" + _zigzag(size) for size in (chunk.total_uncompressed_size, chunk.total_compressed_size)]
    flipped(path, path.read_bytes().index(b"".join(sizes)) + len(sizes[0]) + 1, 0)
    server = Server(str(copied))
    with pytest.raises(TamperedError, match=path.name) as refused:
        server.answer("sql", {"query": "SELECT * FROM event_outcomes"}, 1)
    assert isinstance(refused.value.__cause__, duckdb.InternalException)
    assert server.answer("sql", {"query": "SELECT 1 AS n"}, 1)["rows"] == [{"n": 1}]


def _zigzag(number: int) -> bytes:
    """Return a number of 0 to 8,191 as Thrift's compact protocol writes it."""
    last, first = divmod(2 * number, 128)
    return bytes([first | 128, last] if last else [first])


@pytest.mark.parametrize(("which", "bit"), [(max, 0), (min, 7)])
def test_a_column_with_another_name_is_no_mistake_of_the_question(
    copied: Path, which: Callable[[list[Path]], Path], bit: int
) -> None:
    """Of the first file DuckDB says what it says of a wrong question; of another one it quotes the name, which is no text."""
    path = which(published_files(copied, gold.FINDINGS))
    flipped(path, path.read_bytes().index(b"subject"), bit)
    with pytest.raises(TamperedError, match=path.name):
        list(Answers(str(copied)).ask("SELECT * FROM findings").rows)
