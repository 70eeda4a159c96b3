"""Captures of real name servers give the tables that the first version of this software made of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from jobs.ask.engine import Answers
from jobs.audit.attestation import answers_differing, asked_again, published, summed
from schemas import gold
from tests.night.content import EXPECTED, content_of
from tests.night.nights import JOINED, Capture, night
from tests.pcap import stretch
from tests.places import recorded

FILES = {
    "network": "network/host.pcap.gz",
    "v5-acting-master": "v5-acting-master/capture.pcap.gz",
    "v5-lifecycle": "v5-lifecycle/capture.pcap.gz",
    "v5-two-namesrv": "v5-two-namesrv/capture.pcap.gz",
}


def expected(name: str) -> dict[str, str]:
    """Return the content of the gold tables that the first version made of a capture.

    But for the order in which the rows that one event removes are counted (`closed_at.no`): it goes by their names since. And for
    topics that come behind a registration: the next one tells whether they are residual, though it lists what that one did.
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
