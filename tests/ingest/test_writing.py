"""How staged rows get into the tables: copies, changes, revocations, files and the memory that they may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.ingest.sources import Ingested
from jobs.ingest.staging import settle_staged, staging_in, write_staged
from jobs.store.files import together
from namesrv_wire.rows import REVOKED, Row
from schemas import bronze
from tests.compare_gold import compare, tables_of
from tests.ingest.given import BEAT, DAY, FIRST, Line, at, broker, piece, read_in, stored, warehouse_at, write

NAMED = {"event_id": "a" * 32, "seq": 7}


@pytest.mark.slow
def test_of_a_changed_event_only_the_new_row_is_left(tmp_path: Path) -> None:
    """What has its key and position but says something else takes its place, on another day too; both days are named."""
    read_in(tmp_path / "w", write(tmp_path / "first.jsonl", [at(1, BEAT | NAMED), at(2, BEAT), at(26, BEAT)]))
    other = BEAT | NAMED | {"broker_addr": "x"}
    read = read_in(tmp_path / "w", write(tmp_path / "second.jsonl", [at(1, broker("a", "T", 1)), at(25, other)]))
    assert (read.events, read.duplicates, read.days) == (1, 1, [FIRST, FIRST + DAY])
    columns = ("day", "seq", "broker_addr", "source_file")
    assert [row for row in stored(tmp_path / "w", "heartbeats", *columns) if row[1] == 7] == [
        (FIRST + DAY, 7, "x", "second.jsonl")
    ]
    assert len(stored(tmp_path / "w", "heartbeats", "event_id")) == 3


@pytest.mark.slow
def test_a_position_that_was_made_is_no_change(tmp_path: Path) -> None:
    """The line of an event that has its position says nothing new, whatever position its own file would have given it."""
    one, other = at(1, BEAT), at(1, BEAT | {"broker_addr": "x"})
    read_in(tmp_path / "w", write(tmp_path / "first.jsonl", [one]))
    read = read_in(tmp_path / "w", write(tmp_path / "second.jsonl", [other, one]))
    assert (read.events, read.duplicates, read.days) == (1, 1, [FIRST])
    seqs = [seq for (seq,) in stored(tmp_path / "w", "heartbeats", "seq")]
    assert seqs[1] == seqs[0] + 1
    assert ("first.jsonl", seqs[0]) in stored(tmp_path / "w", "heartbeats", "source_file", "seq")


@pytest.mark.slow
def test_revoked_rows_are_taken_out_of_their_files(tmp_path: Path) -> None:
    """Rows that later packets prove wrong go, with their files where nothing is left, and their days are named."""
    lines = [at(hours, BEAT | {"event_id": str(number) * 32}) for number, hours in enumerate((1, 2, 26))]
    read_in(tmp_path / "w", write(tmp_path / "first.jsonl", lines))
    warehouse, result = warehouse_at(tmp_path / "w", "second"), Ingested()
    with staging_in(str(tmp_path / "staging"), "second", FIRST + 9 * DAY) as staging:
        for number in (0, 2, 3):
            row = Row(REVOKED, {"table": "heartbeats", "event_id": str(number) * 32})
            staging.add([row], [None])
        settle_staged(warehouse, staging, has_logs=False)
        write_staged(warehouse, staging, result, FIRST)
    assert result == Ingested(days=[FIRST, FIRST + DAY])
    assert [(file.day, file.rows) for file in warehouse.files(bronze.HEARTBEATS)] == [(FIRST, 1)]
    assert warehouse.rows(bronze.HEARTBEATS)["event_id"].to_pylist() == ["1" * 32]
    assert not (tmp_path / "staging").exists()


def test_of_copies_the_last_stands_for_all_the_frames(tmp_path: Path) -> None:
    """A frame that gives the same row twice is one frame; rows that stand for none count for none."""
    warehouse, result = warehouse_at(tmp_path / "w", "run"), Ingested()
    with staging_in(str(tmp_path / "staging"), "run", FIRST) as staging:
        for number, frame in enumerate((1, 1, 2, None)):
            values = {"topic_config_digest": "a" * 32, "topics": [], "mappings": [], "topic_count": number}
            staging.add([Row("topic_configs", values)], [frame])
        settle_staged(warehouse, staging, has_logs=False)
        write_staged(warehouse, staging, result, FIRST)
    assert (result.events, result.duplicates, result.days) == (1, 1, [])
    assert warehouse.rows(bronze.TOPIC_CONFIGS_TABLE)["topic_count"].to_pylist() == [3]


def mixed() -> list[list[Line]]:
    """Return the lines of two logs: copies of lines, of keys and of positions, changes, what is refused, several days."""
    beats = [at(1 + n % 3 * 12, BEAT | {"broker_addr": str(n % 7)}) for n in range(30)]
    named = [at(1, BEAT | NAMED | {"seq": seq, "broker_addr": str(seq)}) for seq in (7, 8, 8, 9)]
    topics = [at(2 + n, broker("ab"[n % 2], "TU"[: 1 + n % 2], 1)) for n in range(6)]
    refused = [at(3, {"kind": "observation", "code": 999}), at(3, {"kind": "nonsense"}), at(3, BEAT | {"seq": 8})]
    return [[*beats[:20], *named[:3], *topics[:3], *refused], [*beats[10:], *named, *topics, *refused, *beats[::-1]]]


@pytest.mark.slow
def test_rows_do_not_depend_on_how_many_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row by row, in files of one row, the tables get the same rows as at once, and the same is counted."""
    logs = [write(tmp_path / f"{number}.jsonl", lines) for number, lines in enumerate(mixed())]
    captures = [piece(tmp_path / f"{number}.pcap", 25 * number, 25 * (number + 1)) for number in range(2)]
    counted = {}
    for name in ("whole", "parts"):
        if name == "parts":
            monkeypatch.setattr("jobs.ingest.staging._PENDING_BYTES", 1)
            monkeypatch.setattr("jobs.ingest.staging.ROWS_AT_A_TIME", 1)
            monkeypatch.setattr("jobs.ingest.staging._ROWS_ASKED", 1)
            monkeypatch.setattr("jobs.ingest.staging._ROWS_PER_FILE", 1)
        counted[name] = [read_in(tmp_path / name, *paths) for paths in zip(logs, captures, strict=True)]
    assert counted["parts"] == counted["whole"]
    assert all(read.events and read.quarantined and read.duplicates for read in counted["whole"])
    both = (tables_of(tmp_path / name, layers=("bronze",)) for name in ("whole", "parts"))
    assert [str(one) for one in compare(*both, ignore=["fingerprint"]) if not one.is_equal] == []
    one_row_each = warehouse_at(tmp_path / "parts", "look").files(bronze.HEARTBEATS)
    assert {file.rows for file in one_row_each} == {1}


def test_pieces_are_measured_once_each_however_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A year of small files has as many pieces: putting them together takes time with their number, not with its square."""
    measured: list[int] = []

    class Piece:
        """One row."""

        @property
        def nbytes(self) -> int:
            measured.append(1)
            return 8

        def __len__(self) -> int:
            return 1

    monkeypatch.setattr("jobs.ingest.staging.pa.concat_tables", list)
    assert [len(some) for some in together((Piece() for _ in range(250)), 100, 1 << 20)] == [100, 100, 50]
    assert len(measured) == 250
