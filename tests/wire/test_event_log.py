"""JSON-lines event logs."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from backports import zstd

from jobs.ingest.sources import source_of
from namesrv_wire.errors import CaptureError
from namesrv_wire.logs.event_log import SCHEMA, line_of, read_blocks
from namesrv_wire.rows import AnyRow
from schemas.bronze import TABLES
from tests.pcap import pcap
from tests.wire.counted import read_event_log
from tests.wire.forge import NAMESRV, conversation, of_table, rows_of

BASE = {"schema": SCHEMA, "namesrv_id": NAMESRV, "time": "2026-01-02T03:04:05.006Z"}
TIME_NS = 1_767_323_045_006_000_000


def read(path: Path, *lines: object) -> list[AnyRow]:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return list(read_event_log(path))


def reasons(rows: list[AnyRow]) -> list[str]:
    return [str(values["detail"]) for values in of_table(rows, "quarantine")]


def test_rows_survive_writing_and_reading(tmp_path: Path) -> None:
    """Rows of a capture come back equal, positions and ids included; only where they were read differs."""
    rows = rows_of(conversation())
    topics = {row.values["topic_config_digest"]: row.values for row in rows if row.table == "topic_configs"}
    kept = [row for row in rows if row.table not in ("topic_configs", "quarantine")]
    lines = [line_of(row, topics.get(row.values.get("topic_config_digest"))) for row in kept]
    back = [row for row in read(tmp_path / "log", *lines) if row.table != "topic_configs"]
    own = {"source_file", "source_offset"}
    said = [
        [(row.table, {name: row.values[name] for name in row.values.keys() - own}) for row in some]
        for some in (kept, back)
    ]
    assert said[0] == said[1]


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "heartbeat", "code": 904, "broker_addr": "a:1"},
        {"kind": "registration", "topics": []},
        {"kind": "unregistration"},
        {"kind": "channel", "event": "close", "channel_id": "10.0.0.2:1#5"},
        {"kind": "admin", "code": 205, "broker_name": "b"},
        {"kind": "namesrv", "event": "started"},
        {"kind": "observation", "code": 105, "subject": "T"},
    ],
    ids=lambda line: str(line["kind"]),
)
def test_the_shortest_line_of_each_kind_has_all_columns(tmp_path: Path, line: dict[str, object]) -> None:
    """Defaults fill every column of the table but `namesrv_addr`; the position comes from the time."""
    (*_, row) = read(tmp_path / "log", BASE | line)
    (table,) = [table for table in TABLES if table.name == row.table]
    assert set(row.values) == set(table.column_names) - {
        "ingest_run",
        "day",
        "namesrv_addr",
        "seq_rest",
        "request_rest",
    }
    assert all(
        row.values[column.name] is not None for column in table.columns if column.required and column.name in row.values
    )
    assert (row.values["seq"], row.values["event_time"]) == (TIME_NS, TIME_NS // 1000)
    assert (row.values["source_file"], row.values["source_offset"]) == ("log", 1)


def test_equal_lines_are_duplicates_and_others_are_not(tmp_path: Path) -> None:
    """Two identical lines share id and position; another one at the same time gets the next position."""
    one = BASE | {"kind": "heartbeat", "code": 904, "broker_addr": "a:1"}
    other = one | {"broker_addr": "b:1"}
    first, second, copy = read(tmp_path / "log", one, other, one)
    assert first.values["event_id"] == copy.values["event_id"] != second.values["event_id"]
    assert [row.values["seq"] for row in (first, second, copy)] == [TIME_NS, TIME_NS + 1, TIME_NS]


@pytest.mark.parametrize(
    ("time", "ns"),
    [
        (TIME_NS // 10**6, TIME_NS),
        ("2026-01-02T03:04:05.006000789Z", TIME_NS + 789),
        ("2026-01-02T03:04:05.006+00:00", TIME_NS),
        ("2026-01-02T11:04:05.006+08:00", TIME_NS),
        ("2026-01-01T22:34:05,006-0430", TIME_NS),
        ("2026-01-02t11:04:05.006+08", TIME_NS),
        ("2026-01-02T03:04z", TIME_NS - 5_006_000_000),
        ("2026-01-02T11:04+08:00[Asia/Shanghai]", TIME_NS - 5_006_000_000),
        (str(TIME_NS // 10**6), TIME_NS),
        (json.loads(f"{TIME_NS // 10**6}.0"), TIME_NS),
        (TIME_NS // 10**6 + 0.25, TIME_NS + 250_000),
        ("2000-01-01T00:00:00Z", 946_684_800 * 10**9),
        ("2261-12-31T23:59:59.999999999Z", 9_214_646_400 * 10**9 - 1),
    ],
)
def test_times(tmp_path: Path, time: object, ns: int) -> None:
    """Epoch milliseconds, also in quotes or with a fraction, and ISO-8601 as Java writes it, with up to nanoseconds, are times."""
    (row,) = read(tmp_path / "log", BASE | {"kind": "unregistration", "time": time})
    assert (row.values["seq"], row.values["event_time"]) == (ns, ns // 1000)


TOO_DEEP = {"topics": [], "mappings": [{"topic": "T", "total_queues": 1, "curr_id_map": "[" * 60_000}]}
REFUSED = [
    line for line in Path(__file__).with_name("refused_lines.txt").read_text().splitlines() if line and line[0] != "#"
]


@pytest.mark.parametrize(
    "line", [*REFUSED, "[" * 1000, BASE | {"kind": "registration"} | TOO_DEEP], ids=range(len(REFUSED) + 2)
)
def test_bad_lines_are_quarantined_with_their_number(tmp_path: Path, line: object) -> None:
    """A line that is none costs one quarantine row; the lines around it are read."""
    if isinstance(line, str) and line.startswith("+ "):
        line = BASE | json.loads(line.removeprefix("+ "))
    good = BASE | {"kind": "unregistration"}
    rows = read(tmp_path / "log", good, line, good)
    assert [row.table for row in rows] == ["unregistrations", "quarantine", "unregistrations"]
    assert rows[1].values["source_offset"] == 2


def test_too_long_lines_are_cut_and_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line beyond the limit is never held whole; the next one is read."""
    monkeypatch.setattr("namesrv_wire.logs.event_log.MAX_LINE_BYTES", 200)
    rows = read(tmp_path / "log", "x" * 5_000, BASE | {"kind": "unregistration"})
    assert [row.table for row in rows] == ["quarantine", "unregistrations"]
    assert (rows[0].values["reason"], rows[0].values["length"]) == ("line_too_long", 5_000)


@pytest.mark.slow
def test_a_torn_member_costs_what_stands_behind_the_tear(tmp_path: Path) -> None:
    """Of three packed members, the second torn in the middle, all lines in front of the tear are read, and then it is named."""
    members = [
        "".join(json.dumps(BASE | {"kind": "unregistration", "broker_name": f"b{n}"}) + "\n" for n in some).encode()
        for some in (range(500), range(500, 15_500), range(15_500, 16_000))
    ]
    first, torn, last = (gzip.compress(member) for member in members)
    half = len(torn) // 2
    path = tmp_path / "log"
    path.write_bytes(first + torn[:half] + last)  # as when whoever wrote it died, and went on with a new one
    whole = 500 + zlib.decompressobj(31).decompress(torn[:half]).count(b"\n")
    found: list[AnyRow] = []

    def read_on() -> None:
        for row in read_event_log(path):
            found.append(row)  # noqa: PERF402  they are kept when it stops

    with pytest.raises(CaptureError, match="damaged or ends early") as stopped:
        read_on()
    names = [row.values["broker_name"] for row in found if row.table == "unregistrations"]
    # Behind the tear there may be what only looks like a line.
    assert names[:whole] == [f"b{n}" for n in range(whole)]
    assert whole > 4_000
    assert stopped.value.offset >= len(members[0])


@pytest.mark.parametrize("size", [1, 7, 150, 5_000])
def test_lines_do_not_depend_on_how_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Lines that lie over the edges of blocks, are too long, blank, or end with CR, or with the file, are the same in all."""
    good = json.dumps(BASE | {"kind": "unregistration"})
    text = "\n".join([good, "", good + "\r", "x" * 999, good, "   ", "no json", "y" * 400, good])
    monkeypatch.setattr("namesrv_wire.logs.event_log.MAX_LINE_BYTES", 300)
    path = tmp_path / "log"
    found = []
    for content in (text.encode(), gzip.compress(text.encode()), text.encode() + b"\n"):
        path.write_bytes(content)
        for block in (4 << 20, size):
            monkeypatch.setattr("namesrv_wire.logs.event_log.BLOCK_BYTES", block)
            found.append([(row.table, row.values) for row in read_event_log(path)])
    assert all(rows == found[0] for rows in found)
    assert [values["source_offset"] for _, values in found[0]] == [1, 3, 4, 5, 7, 8, 9]
    assert [values["length"] for table, values in found[0] if table == "quarantine"] == [999, 7, 400]


def test_documented_examples_are_read(tmp_path: Path) -> None:
    """Every example in docs/event-log.md is a line that reads without a refusal. One of each kind at least."""
    text = (Path(__file__).parents[2] / "docs" / "event-log.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith('{"schema"')]
    rows = read(tmp_path / "log", *lines)
    assert reasons(rows) == []
    assert {json.loads(line)["kind"] for line in lines} == {
        "heartbeat", "registration", "unregistration", "channel", "admin", "namesrv", "observation",
    }  # fmt: skip


@pytest.mark.parametrize("unit", [1, 1.0, 1_000_000_000])
def test_a_time_in_another_unit_is_refused_with_what_is_expected(tmp_path: Path, unit: float) -> None:
    """Epoch seconds, or ns, are no milliseconds of 1970, or of a time beyond all: the reason says what a time is."""
    seconds = TIME_NS // 10**9
    (row,) = read(tmp_path / "log", BASE | {"kind": "unregistration", "time": seconds * unit})
    assert (row.table, row.values["reason"]) == ("quarantine", "bad_line")
    assert "epoch milliseconds, expected" in row.values["detail"]
    assert ("epoch seconds?" in row.values["detail"]) is (unit == 1)
    assert row.values["detail"].startswith(f"time {seconds * unit} ")


@pytest.mark.parametrize(
    ("said", "column", "value"),
    [
        ({"broker_id": "0"}, "broker_id", 0),
        ({"broker_id": "-7"}, "broker_id", -7),
        ({"request_version": 407.0}, "request_version", 407),
        ({"code": "104"}, "code", 104),
        ({"seq": str(TIME_NS)}, "seq", TIME_NS),
        ({"response_fields": '{"wipeTopicCount":5,"masterAddr":null}'}, "response_fields", '{"wipeTopicCount":"5"}'),
        ({"response_fields": '{"changed":true}'}, "response_fields", '{"changed":"true"}'),
        ({"response_fields": {"wipeTopicCount": 5}}, "response_fields", '{"wipeTopicCount":"5"}'),
        ({"response_fields": "{}"}, "response_fields", "{}"),
    ],
)  # fmt: skip
def test_what_loses_nothing_is_read(tmp_path: Path, said: dict[str, object], column: str, value: object) -> None:
    """Whole numbers in quotes or with a point, and numbers as values of header fields, are what they say; also a second time."""
    one = BASE | {"kind": "unregistration"} | said
    for row in read(tmp_path / "log", one, one | {"time": "2026-01-02T03:04:06Z"}):
        assert (row.table, row.values[column]) == ("unregistrations", value)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"schema":"namesrv-event/1"},', "bad_json"),
        ('{"schema":"namesrv-event/1",}', "bad_json"),
        ("{'schema':'namesrv-event/1'}", "bad_json"),
        ('{"schema":NaN}', "bad_json"),
        ('{"schema":"namesrv-event/1"', "bad_json"),
        ('{"schema":"namesrv-event/1","schema":"namesrv-event/1"}', "ambiguous_json"),
    ],
)
def test_what_is_no_json_is_called_so(tmp_path: Path, line: str, reason: str) -> None:
    """Nobody else reads a line: a slip in its JSON is no question of readers. Only a name that is there twice is ambiguous."""
    (row,) = read(tmp_path / "log", line)
    assert row.values["reason"] == reason


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_byte_order_mark_is_no_part_of_a_line(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """A log that begins with one, or was put together from such, reads as without."""
    line = json.dumps(BASE | {"kind": "unregistration"}).encode() + b"\n"
    path = tmp_path / "log"
    found = []
    for content in (line * 4, b"\xef\xbb\xbf" + line * 2 + b"\xef\xbb\xbf" + line * 2):
        path.write_bytes(pack(content))
        found.append([(row.table, row.values) for row in read_event_log(path)])
    assert found[0] == found[1]


def tar_of(content: bytes) -> bytes:
    """Return an archive with one file, whose first line stands behind the archive's header."""
    made, member = io.BytesIO(), tarfile.TarInfo("events.jsonl")
    member.size = len(content)
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("content", "why"),
    [
        *((json.dumps(BASE).encode(code), "UTF-8") for code in ("utf-16", "utf-16-le", "utf-16-be", "utf-32")),
        (json.dumps([BASE]).encode(), "JSON array"),
        (b"\xef\xbb\xbf\n " + json.dumps([BASE], indent=1).encode(), "JSON array"),
        (json.dumps(BASE, indent=2).encode(), "several lines"),
        (tar_of(json.dumps(BASE).encode() + b"\n"), "tar or zip"),
    ],
)
def test_a_file_that_is_no_event_log_is_refused_whole(
    tmp_path: Path, content: bytes, why: str, pack: Callable[[bytes], bytes]
) -> None:
    """JSON in another form, another encoding, or an archive is one sentence that says what is expected, not a refusal a line."""
    path = tmp_path / "log"
    path.write_bytes(pack(content))
    with pytest.raises(CaptureError, match=why):
        list(read_event_log(path))
    source = source_of(path)
    assert source.kind == "event_log"


@pytest.mark.parametrize("content", [b"", json.dumps(BASE).encode(), pcap([])])
def test_a_file_that_is_compressed_twice_is_refused_as_that(tmp_path: Path, content: bytes) -> None:
    """Whatever it holds; nobody is told that a capture is none."""
    path = tmp_path / "a.pcap.zst.gz"
    path.write_bytes(gzip.compress(zstd.compress(content)))
    assert source_of(path).kind == "event_log"
    with pytest.raises(CaptureError, match="compressed twice: unpack it once"):
        list(read_event_log(path))


@pytest.mark.parametrize(
    "said",
    [
        {"broker_name": "b" * 1_025},
        {"channel_id": "c" * 1_025},
        {"namesrv_id": "n" * 1_025},
        {"kind": "registration", "topics": [{"topic": "t" * 1_025, "read_queue_nums": 1, "write_queue_nums": 1, "perm": 6}]},
        {"kind": "registration", "filter_servers": ["f" * 1_025]},
    ],
)  # fmt: skip
def test_names_that_are_none_for_their_length_are_refused(tmp_path: Path, said: dict[str, object]) -> None:
    """A name of more than 1,024 characters costs its line; a remark or a body may be long."""
    longest = BASE | {
        "kind": "unregistration",
        "broker_name": "b" * 1_024,
        "response_code": 0,
        "response_remark": "r" * 5_000,
    }
    first, second = read(tmp_path / "log", longest, BASE | {"kind": "unregistration"} | said)
    assert first.table == "unregistrations"
    assert second.values["reason"] == "name_too_long"


def test_many_lines_that_are_refused_are_blocks_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However short lines are, so few are kept together; equal ones differ by their numbers."""
    monkeypatch.setattr("namesrv_wire.logs.event_log._BLOCK_LINES", 100)
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(b"{}\n" * 250))
    blocks = list(read_blocks(path))
    assert [(block.count, len(block.rows)) for block in blocks] == [(100, 100), (100, 100), (50, 50)]
    assert [row.values["source_offset"] for block in blocks for row in block.rows] == list(range(1, 251))
