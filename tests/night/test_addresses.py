"""Name servers with several addresses are one where that is said; what only looks so is told, and stays apart unless asked for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jobs.cli.commands import export
from jobs.conf import NamesrvConf, PipelineConf
from jobs.night.nightly import Summary
from schemas import bronze, gold
from tests.ingest.given import warehouse_at, write
from tests.night.content import content_of
from tests.night.nights import JOINED, Capture, night, restatements, rows
from tests.night.worlds import BALANCER, FIRST, OTHER, SECOND, alternating, dual_stack, of

pytestmark = pytest.mark.slow

ONE = f"{FIRST}, {OTHER}"


def addresses_of(summary: Summary) -> dict[str, str]:
    return {name: said["addresses"]["value"] for name, said in summary.settings.items() if "addresses" in said}


def told(warehouse: Path) -> dict[tuple[str, str], str]:
    """Return what findings say of addresses: details by code and subject."""
    return {
        (row["code"], row["subject"]): row["detail"]
        for row in rows(warehouse, gold.FINDINGS)
        if row["code"] in ("SAME_PROCESS_SUSPECTED", "ADDRESS_SHARED")
    }


def mismatched(summary: Summary) -> int:
    return int(summary.verify["mismatched"])


def elsewhere(summary: Summary) -> int:
    """Return how many answers do not match since not all that the name server was told is recorded at its address."""
    return int(summary.verify["explained"].get("other_address", 0))


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """Give a warehouse that read everything in one file, what seems to be one joined, and what its night has said."""
    folder = tmp_path_factory.mktemp("at-once")
    return Capture(folder / "w", night(folder / "w", write(folder / "all.jsonl", dual_stack()), conf=JOINED))


def test_two_addresses_of_one_process_are_joined_where_that_is_asked_for(at_once: Capture) -> None:
    """Everything is of one name server, all answers match, its settings say so, and bronze rows where they were met."""
    path, summary = at_once
    assert (mismatched(summary), elsewhere(summary), told(path)) == (0, 0, {})
    assert addresses_of(summary) == {FIRST: ONE}
    assert set(summary.namesrvs) == {FIRST, SECOND}
    (row,) = rows(path, bronze.ADDRESSES)
    assert (row["namesrv_addr"], row["namesrv_id"], row["source"]) == (OTHER, FIRST, "joined")
    met = {(row["namesrv_id"], row["namesrv_addr"]) for row in rows(path, bronze.REGISTRATIONS)}
    assert met == {(FIRST, FIRST), (FIRST, OTHER), (SECOND, SECOND)}
    lives = [row["kind"] for row in rows(path, bronze.NAMESRV_EVENTS) if row["namesrv_id"] == FIRST]
    assert sorted(lives) == ["address_started", "started"]


def test_what_seems_to_be_one_is_told_and_joined_by_a_later_run(tmp_path: Path, at_once: Capture) -> None:
    """Told with the lines for conf/; what does not match is no mismatch. Joining restates, and so does the way back."""
    summary = night(tmp_path / "w", write(tmp_path / "all.jsonl", dual_stack()))
    assert set(summary.namesrvs) == {FIRST, OTHER, SECOND}
    assert mismatched(summary) == 0
    assert elsewhere(summary) > 200
    first = content_of(tmp_path / "w")
    ((subject, detail),) = told(tmp_path / "w").items()
    assert subject == ("SAME_PROCESS_SUSPECTED", f"{FIRST} {OTHER}")
    assert f'[namesrv."{FIRST}"] addresses = ["{OTHER}"]' in detail
    joined = night(tmp_path / "w", conf=JOINED)
    assert (addresses_of(joined), mismatched(joined)) == ({FIRST: ONE}, 0)
    assert content_of(tmp_path / "w") == content_of(at_once.path)
    assert OTHER in {row["namesrv_id"] for row in restatements(tmp_path / "w")}
    assert {row["namesrv_id"] for row in rows(tmp_path / "w", bronze.WATERMARKS)} == {FIRST, SECOND}
    assert night(tmp_path / "w", conf=JOINED).status == "nothing_to_do"
    night(tmp_path / "w")
    # Two events that stood at one position while they were of one name server stand at two since.
    again = content_of(tmp_path / "w")
    placed = (gold.NAMESRV_SETTINGS.name, gold.EVENT_OUTCOMES.name)
    assert {name: of for name, of in again.items() if name not in placed} == {
        name: of for name, of in first.items() if name not in placed
    }


def test_an_address_of_several_processes_is_told(tmp_path: Path) -> None:
    """What is answered goes back and forth: nothing can be told apart, that is said, and its answers are no mismatches."""
    summary = night(tmp_path / "w", write(tmp_path / "all.jsonl", alternating()), conf=JOINED)
    assert (mismatched(summary), elsewhere(summary) > 0) == (0, True)
    assert set(told(tmp_path / "w")) == {("ADDRESS_SHARED", BALANCER)}


def test_addresses_of_one_process_in_different_files(tmp_path: Path, at_once: Capture) -> None:
    """In two nights: the tables are those of one file."""
    lines = dual_stack()
    night(tmp_path / "w", write(tmp_path / "other.jsonl", of(lines, OTHER)), conf=JOINED)
    night(tmp_path / "w", write(tmp_path / "rest.jsonl", of(lines, FIRST, SECOND)), conf=JOINED)
    assert content_of(tmp_path / "w") == content_of(at_once.path)


def test_conf_wins_over_what_was_joined(tmp_path: Path, at_once: Capture) -> None:
    """A night without input, and with a configuration that denies it, takes the two apart again."""
    shutil.copytree(at_once.path, tmp_path / "w")
    apart = PipelineConf(namesrvs={FIRST: NamesrvConf(addresses=())}, join_addresses=True)
    assert set(night(tmp_path / "w", conf=apart).namesrvs) == {FIRST, OTHER, SECOND}
    assert {row["namesrv_id"] for row in rows(tmp_path / "w", bronze.REGISTRATIONS)} == {FIRST, OTHER, SECOND}
    together = PipelineConf(namesrvs={OTHER: NamesrvConf(addresses=(FIRST,))})
    assert addresses_of(night(tmp_path / "w", conf=together)) == {OTHER: f"{OTHER}, {FIRST}"}


def test_an_event_log_of_a_warehouse_says_whose_addresses_are_whose(tmp_path: Path, at_once: Capture) -> None:
    """Exported and read back, all is the same, though nothing is joined; unless conf/ says that they are apart."""
    export(warehouse_at(at_once.path), tmp_path / "all.jsonl")
    assert addresses_of(night(tmp_path / "w", tmp_path / "all.jsonl")) == {FIRST: ONE}
    assert content_of(tmp_path / "w") == content_of(at_once.path)
