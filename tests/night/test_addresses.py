"""Name servers with several addresses are one, told by conf/ or by what they answer; what only looks so stays apart."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jobs.cli.export import export
from jobs.conf import NamesrvConf, PipelineConf
from jobs.night.nightly import Summary
from schemas import bronze, gold
from tests.night.content import content_of
from tests.night.nights import Capture, house_at, night, rows
from tests.night.worlds import (
    BALANCER,
    FIRST,
    OTHER,
    SECOND,
    alternating,
    balanced,
    dual_stack,
    log,
    of,
    two_hosts,
)

pytestmark = pytest.mark.slow

ONE = f"{FIRST}, {OTHER}"


def addresses_of(summary: Summary) -> dict[str, str]:
    """Return the addresses of the name servers that have several."""
    return {name: said["addresses"]["value"] for name, said in summary.settings.items() if "addresses" in said}


def doubts(warehouse: Path) -> set[tuple[str, str]]:
    """Return what findings say of addresses."""
    return {
        (row["code"], row["subject"]) for row in rows(warehouse, gold.FINDINGS) if row["code"].startswith("ADDRESS")
    }


def mismatched(summary: Summary) -> int:
    """Return how many answers do not match."""
    return int(summary.verify["answers"] - summary.verify["matched"])


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    """Give a warehouse that read everything in one file, and what its night has said."""
    folder = tmp_path_factory.mktemp("at-once")
    return Capture(folder / "w", night(folder / "w", log(folder / "all.jsonl", dual_stack())))


def test_answers_tell_of_two_addresses_of_one_process(at_once: Capture) -> None:
    """Everything is of one name server, all answers match, its settings say why, and bronze rows where they were met."""
    path, summary = at_once
    assert mismatched(summary) == 0
    assert addresses_of(summary) == {FIRST: ONE}
    assert set(summary.namesrvs) == {FIRST, SECOND}
    (said,) = [row for row in rows(path, gold.NAMESRV_SETTINGS) if row["setting"] == "addresses"]
    assert (said["source"], len(said["evidence"]), said["answers_against"]) == ("inferred", 5, 0)
    assert said["answers_for"] >= 100
    met = {(row["namesrv_id"], row["namesrv_addr"]) for row in rows(path, bronze.REGISTRATIONS)}
    assert met == {(FIRST, FIRST), (FIRST, OTHER), (SECOND, SECOND)}
    assert not doubts(path)
    lives = [row["kind"] for row in rows(path, bronze.NAMESRV_EVENTS) if row["namesrv_id"] == FIRST]
    assert sorted(lives) == ["address_started", "started"]
    # It was known before they were written: no file of theirs is there that another one has replaced.
    (table,) = path.rglob(bronze.ROUTE_OBSERVATIONS.name)
    assert len([*table.rglob("*.parquet")]) == 1


def test_apart_half_of_the_answers_are_wrong(tmp_path: Path) -> None:
    """What conf/ denies is not concluded: with it, the same recording shows what the conclusion is worth."""
    conf = PipelineConf(namesrvs={FIRST: NamesrvConf(addresses=()), OTHER: NamesrvConf(), SECOND: NamesrvConf()})
    summary = night(tmp_path / "w", log(tmp_path / "all.jsonl", dual_stack()), conf=conf)
    assert set(summary.namesrvs) == {FIRST, OTHER, SECOND}
    assert mismatched(summary) > 200


def test_conf_states_addresses(tmp_path: Path) -> None:
    """Said beforehand, even of a recording too short to show it."""
    conf = PipelineConf(namesrvs={FIRST: NamesrvConf(version="5.4.0", addresses=(OTHER,)), SECOND: NamesrvConf()})
    summary = night(tmp_path / "w", log(tmp_path / "all.jsonl", dual_stack(100)), conf=conf)
    assert (addresses_of(summary), mismatched(summary)) == ({FIRST: ONE}, 0)
    assert summary.settings[FIRST]["addresses"]["source"] == "given"


def test_two_processes_behind_a_balancer_stay_apart(tmp_path: Path) -> None:
    """Answers show some of the brokers that only registered at the balancer, and lack the others: told, not merged."""
    summary = night(tmp_path / "w", log(tmp_path / "all.jsonl", balanced()))
    assert (addresses_of(summary), set(summary.namesrvs)) == ({}, {FIRST, SECOND, BALANCER})
    assert ("ADDRESS_IN_DOUBT", f"{FIRST} {BALANCER}") in doubts(tmp_path / "w")


def test_an_address_of_several_processes_is_told(tmp_path: Path) -> None:
    """What is answered goes back and forth: nothing can be told apart, and that is said."""
    summary = night(tmp_path / "w", log(tmp_path / "all.jsonl", alternating()))
    assert mismatched(summary) > 0
    assert doubts(tmp_path / "w") == {("ADDRESS_SHARED", BALANCER)}


def test_two_hosts_that_use_one_port_stay_apart(tmp_path: Path) -> None:
    """No answer shows what only the other was told, so nothing is said of them."""
    summary = night(tmp_path / "w", log(tmp_path / "all.jsonl", two_hosts()))
    assert (mismatched(summary), addresses_of(summary)) == (0, {})
    assert set(summary.namesrvs) == {FIRST, SECOND}
    assert not doubts(tmp_path / "w")


def test_thin_evidence_is_told_and_changes_nothing(tmp_path: Path) -> None:
    """Within the longest lease of its beginning a recording may show what was there before."""
    summary = night(tmp_path / "w", log(tmp_path / "all.jsonl", dual_stack(100)))
    assert set(summary.namesrvs) == {FIRST, OTHER, SECOND}
    assert ("ADDRESS_IN_DOUBT", f"{FIRST} {OTHER}") in doubts(tmp_path / "w")


def test_a_later_night_learns_of_an_address_and_restates(tmp_path: Path, at_once: Capture) -> None:
    """What was published of the other address as a name server of its own is gone, and restatements say so."""
    lines = dual_stack()
    first = dual_stack(100)
    early = [line for line in lines if line in first]
    assert OTHER in night(tmp_path / "w", log(tmp_path / "early.jsonl", early)).namesrvs
    summary = night(tmp_path / "w", log(tmp_path / "late.jsonl", [line for line in lines if line not in early]))
    assert (addresses_of(summary), mismatched(summary)) == ({FIRST: ONE}, 0)
    assert content_of(tmp_path / "w") == content_of(at_once.path)
    told = {(row["namesrv_id"], row["table_name"]) for row in rows(tmp_path / "w", gold.RESTATEMENTS)}
    assert (OTHER, "broker_live_history") in told
    assert (FIRST, "broker_live_history") in told
    assert {row["namesrv_id"] for row in rows(tmp_path / "w", bronze.WATERMARKS)} == {FIRST, SECOND}


def test_addresses_of_one_process_in_different_files(tmp_path: Path, at_once: Capture) -> None:
    """In one night or in two, in any order: the tables are the same."""
    lines = dual_stack()
    parts = [
        log(tmp_path / "other.jsonl", of(lines, OTHER)),
        log(tmp_path / "rest.jsonl", of(lines, FIRST, SECOND)),
    ]
    night(tmp_path / "one", *parts)
    for part in parts:
        night(tmp_path / "two", part)
    assert content_of(tmp_path / "one") == content_of(tmp_path / "two") == content_of(at_once.path)


def test_conf_wins_over_what_was_found(tmp_path: Path, at_once: Capture) -> None:
    """A night without input, and with a configuration that denies it, takes the two apart again."""
    shutil.copytree(at_once.path, tmp_path / "w")
    apart = PipelineConf(namesrvs={FIRST: NamesrvConf(addresses=())})
    assert set(night(tmp_path / "w", conf=apart).namesrvs) == {FIRST, OTHER, SECOND}
    assert {row["namesrv_id"] for row in rows(tmp_path / "w", bronze.REGISTRATIONS)} == {FIRST, OTHER, SECOND}
    together = PipelineConf(namesrvs={OTHER: NamesrvConf(addresses=(FIRST,))})
    assert addresses_of(night(tmp_path / "w", conf=together)) == {OTHER: f"{OTHER}, {FIRST}"}


def test_an_event_log_of_a_warehouse_says_whose_addresses_are_whose(tmp_path: Path, at_once: Capture) -> None:
    """Exported and read back, all is the same but for how it is known."""
    export(house_at(at_once.path), tmp_path / "all.jsonl")
    summary = night(tmp_path / "w", tmp_path / "all.jsonl")
    assert addresses_of(summary) == {FIRST: ONE}
    before, after = content_of(at_once.path), content_of(tmp_path / "w")
    assert before.pop(gold.NAMESRV_SETTINGS.name) != after.pop(gold.NAMESRV_SETTINGS.name)
    assert before == after
