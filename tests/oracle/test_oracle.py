"""The core against RocketMQ's own classes, event by event, and the harness against what was recorded before."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples import great
from tests.oracle.__main__ import main
from tests.oracle.lockstep import compare, difference, explained
from tests.oracle.oracle import VERSIONS, Oracle
from tests.places import toml

pytestmark = pytest.mark.jvm

CORE = Path(__file__).resolve().parents[1] / "core"
KNOWN = toml(Path(__file__).parent / "known_differences.toml")["difference"]
EVENTS = great(200_000)
SEED = 5_040_907


@pytest.fixture(scope="module", params=VERSIONS)
def oracle(request) -> Iterator[Oracle]:
    """The real name server of one release; without a network the first time, these tests cannot run and fail."""
    real = Oracle(request.param)
    yield real
    real.close()


@pytest.mark.slow
def test_harness_gives_what_was_recorded(oracle) -> None:
    """Ten recorded traces: results, states and responses are those of the recording, made with another harness."""
    paths = sorted((CORE / "traces" / oracle.version).glob("*.jsonl.gz"))
    assert len(paths) == 10
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            recorded = [json.loads(line) for line in lines]
        events = [line["ev"] for line in recorded]
        for line, direct, wire in zip(recorded, oracle.take(events, states=True), oracle.wire(events), strict=True):
            at = f"{path.name} line {line['i']}: {line['ev']}"
            assert (direct["res"], direct["h"]) == (line["res"], line["h"]), at
            assert direct["st"] == line.get("st", direct["st"]), at
            assert (wire["h"], wire.get("wire")) == (line["h"], line.get("wire")), at


@pytest.mark.slow
def test_core_is_in_step_with_the_real_name_server(oracle) -> None:
    """Result and state hash are equal after each of very many adversarial events."""
    compared = compare(oracle, EVENTS, SEED)
    assert compared.difference is None, explained(oracle, compared.difference)
    assert compared.events >= EVENTS


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known["what"][:40])
def test_known_difference_is_still_there(oracle, known) -> None:
    """A difference that is gone must be taken off the list, and sequences may then contain it; others show none."""
    version: dict[str, Any] = {"state": 0} if oracle.version == "5.4.0" else {}
    shown = {"filters": None, "ha": None, "ch": "c", "dv": {"ts": 1, "counter": 1, **version}}
    events = [{**shown, **json.loads(event)} for event in known["events"]]
    init = {"op": "init", "t_ms": 0, "profile": oracle.version, "config": {}, "channels": dict.fromkeys("cd")}
    assert (difference(oracle, [init, *events]) is not None) == (oracle.version in known["versions"])


@pytest.mark.slow
def test_command_reports_equality(capsys) -> None:
    """The command compares as many events as asked for and ends with 0."""
    assert main(["--events", "3000", "--seed", "3", "--profile", "4.9.7"]) == 0
    assert "no difference" in capsys.readouterr().out


@pytest.mark.slow
def test_a_fault_in_the_core_is_found_and_minimised(capsys, monkeypatch) -> None:
    """The comparison is not blind: for a core that loses write permissions the command ends with 1, and few events are left."""
    monkeypatch.setattr("namesrv_core.machine.step.PERM_WRITE", 0)
    assert main(["--events", "20000", "--profile", "5.4.0"]) == 1
    printed = capsys.readouterr().out
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    assert events[-1]["op"] == "register"
    assert len(events) <= 5
    assert "topicQueueTable, real" in printed


def test_command_says_what_is_missing(capsys, monkeypatch, tmp_path) -> None:
    """Without Java the command ends with 2 and says so."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["--events", "1"]) == 2
    assert "java: not found" in capsys.readouterr().err
    assert shutil.which("java", path=str(tmp_path)) is None
