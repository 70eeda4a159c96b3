"""Captures of real name servers give the tables that the first version of this software made of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from jobs.ask.engine import Answers
from jobs.audit.attestation import answers_differing, asked_again, published, summed
from namesrv_day.arrow import with_microseconds
from schemas import gold
from schemas.times import US_PER_DAY
from tests.compare_gold import tables_of
from tests.night.content import EXPECTED, content_of
from tests.night.nights import JOINED, Capture, night
from tests.pcap import capture, records, stretch
from tests.places import recorded

FILES = {
    "network": "network/host.pcap.gz",
    "v5-acting-master": "v5-acting-master/capture.pcap.gz",
    "v5-lifecycle": "v5-lifecycle/capture.pcap.gz",
    "v5-two-namesrv": "v5-two-namesrv/capture.pcap.gz",
}


def expected(name: str) -> dict[str, str]:
    """Return the content of the gold tables that the first version made of a capture.

    But for the order in which the rows that one event removes are counted (`closed_at.no`): it goes by their names since.
    """
    found: dict[str, str] = json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))
    return found


def of_those_tables(warehouse: Path, name: str) -> dict[str, str]:
    """Return the content of the same tables in a warehouse; it may have others that came later."""
    content = content_of(warehouse)
    return {table: content[table] for table in expected(name)}


def test_the_bundled_capture_gives_what_it_gave(whole: Capture) -> None:
    """All gold tables but the findings are equal by content, whatever files and digests they have."""
    assert of_those_tables(whole.path, "v4-lifecycle") == expected("v4-lifecycle")


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_other_captures_give_what_they_gave(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """4.x and 5.x, two name servers, acting masters, a network that loses packets and knows only a part of the past.

    Every recorded answer, asked of a registry that is rebuilt from the published tables, compares as was published.
    """
    file, path = recorded(FILES[name]), tmp_path / "w"
    if name in ("network", "v5-lifecycle"):
        path = request.getfixturevalue(name.replace("-", "_")).path
    else:
        night(path, file, conf=JOINED)
    assert of_those_tables(path, name) == expected(name)
    answers = Answers(str(path))
    again = asked_again(answers)
    assert answers_differing(again, published(answers)) == []
    assert summed(again)["answers"] > 7_000


@pytest.mark.slow
def test_another_process_before_the_day_changes_no_route(tmp_path: Path) -> None:
    """A connection that another process had accepted before: its settings are not those of the one that ran the whole day."""
    both = recorded("").parent / "cases" / "two_processes.pcap.gz"
    if not both.exists():
        pytest.skip(f"not in this repository: {both.name}")
    night(tmp_path / "w", both)
    found, alone = content_of(tmp_path / "w"), expected("v5-acting-master")
    assert [name for name in (gold.ROUTE_CHANGES.name, gold.ORPHANED_TOPICS.name) if found[name] != alone[name]] == []


def intervals(warehouse: Path, later_us: int) -> dict[str, list[str]]:
    """Return what the intervals of a warehouse are about, with their times, `later_us` earlier."""
    tables, found = tables_of(warehouse), {}
    for table in (*gold.HISTORY_TABLES, gold.ORPHANED_TOPICS):
        about = [name for name in table.key if name not in ("opened_at", "opened_by", "valid_from")]
        rows = with_microseconds(tables[table.name].select([*about, "valid_from", "valid_to"])).to_pylist()
        times = ([row.pop(name) for name in ("valid_from", "valid_to")] for row in rows)
        spans = [[at_us and at_us - later_us for at_us in of] for of in times]
        found[table.name] = sorted(f"{row} {span}" for row, span in zip(rows, spans, strict=True))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.3, 0.6])
def test_midnight_changes_no_interval(tmp_path: Path, v5_lifecycle: Capture, share: float) -> None:
    """Where it lies amid a capture, in one run or between two: what lasted how long is as on one day."""
    data = gzip.decompress(recorded(FILES["v5-lifecycle"]).read_bytes())
    packets = list(records(data))
    midnight = int(len(packets) * share)
    later_us = -packets[midnight].time_us % US_PER_DAY
    moved = [packet._replace(time_us=packet.time_us + later_us) for packet in packets]
    days = [tmp_path / "first.pcap", tmp_path / "second.pcap"]
    for file, some in zip(days, (moved[:midnight], moved[midnight:]), strict=True):
        file.write_bytes(capture(data, some))
    night(tmp_path / "once", *days)
    for file in days:
        night(tmp_path / "twice", file)
    as_on_one_day = intervals(v5_lifecycle.path, 0)
    assert intervals(tmp_path / "once", later_us) == as_on_one_day
    assert intervals(tmp_path / "twice", later_us) == as_on_one_day


@pytest.mark.slow
@pytest.mark.parametrize(("since_s", "until_s", "damage"), [(176, 342, b"\xff" * 700), (120.8, 208.6, b"")])
def test_a_hole_that_hides_a_life_makes_no_answer_wrong(
    tmp_path: Path, since_s: float, until_s: float, damage: bytes
) -> None:
    """A start, a whole restart, changes of permissions: behind it the next file's answers are right, or of an unknown past.

    Where the file before ends in damage, and where it just ends, and connections show that something is missing.
    """
    data = gzip.decompress(recorded(FILES["v5-two-namesrv"]).read_bytes())
    files = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    files[0].write_bytes(stretch(data, 0, since_s) + damage)
    files[1].write_bytes(stretch(data, until_s, 900))
    said = night(tmp_path / "w", *files)
    assert (said.verify["mismatched"], said.findings["LOG_GAP"]) == (0, 2)
    assert 0 < said.verify["explained"]["unknown_past"] < 100
