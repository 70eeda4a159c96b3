"""Captures of a simulated fleet and its clients: what their answers take, and what it costs that nothing is known of the past."""

from __future__ import annotations

import datetime as dt
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow.compute as pc

from jobs.cli.snapshot import snapshot_at
from jobs.conf import PipelineConf
from jobs.night import judging, nightly
from jobs.night.passes import InProcess
from jobs.store.warehouse import Warehouse
from namesrv_day.hours import answered
from namesrv_wire.codes import OBSERVED
from schemas import bronze, gold
from tools.bench.fleets import START, Fleets, Silent
from tools.bench.harness import AnswersDifferError, Measured, Ratio, clocked
from tools.fleet.asking import Traffic
from tools.fleet.capture import Captured, capture
from tools.fleet.fleet import Fleet

_CLIENTS = {"full": 880, "small": 20}
_POLL_S = {"full": 30, "small": 300}
_WRONG = {"full": 10_000, "small": 10}
_VERIFYING = ((answered, "hours_from"), (judging, "verdicts"))
"""The functions that verify, by the modules that call them; none calls another."""


def answers(fleets: Fleets, rounds: int) -> list[Measured]:
    """Verification of a day's answers and the rest of the night by their reading, and the bytes of an answer."""
    files = [fleets.folder / f"{fleets.scale}-answers.pcap"]
    made = _captured(fleets, files, _WRONG[fleets.scale])
    values: dict[str, list[float]] = {"verification": [], "reading": [], "rest of the night": []}
    for number in range(rounds):
        house = _house(fleets.folder / f"answers-{number}")
        with clocked(*_VERIFYING) as spent:
            said = nightly.run(house, InProcess(fleets.passes.width), nightly.Asked([str(files[0])]), Silent())
        reading = said.seconds["ingest"]
        values["verification"].append(sum(spent))
        values["reading"].append(reading)
        values["rest of the night"].append(sum(said.seconds.values()) - reading)
        stored = house.files(bronze.ROUTE_OBSERVATIONS)
        checks = house.rows(gold.ANSWER_CHECKS, None, ["code", "answers", "mismatched"])
        checks = checks.filter(pc.field("code").isin(sorted(OBSERVED)))
        judged, wrong = (pc.sum(checks[name]).as_py() for name in ("answers", "mismatched"))
        if (judged, wrong) != (said.observations, made.counts["wrong_answers"]):
            raise AnswersDifferError(f"{judged} of {said.observations} answers judged, {wrong} wrong")
    notes = {"answers": judged, "wrong": wrong}
    size = sum(file.size for file in stored) / sum(file.rows for file in stored)
    return [
        Ratio(
            "verification of answers ÷ reading them",
            "verification",
            "reading",
            values,
            0.2,
            answers=judged,
            notes=notes,
        ),
        Ratio(
            "rest of a captured night ÷ its reading",
            "rest of the night",
            "reading",
            values,
            0.5,
            first=2.4,
            notes=notes,
        ),
        Ratio("bytes of an answer on disk", "bytes", 1.0, {"bytes": [size]}, 4, first=31, unit="bytes", notes=notes),
    ]


def mid_life(fleets: Fleets, rounds: int) -> list[Measured]:
    """The replay of a recording that begins in mid-life by the same with the state given; both know the same in the end."""
    files = [fleets.folder / f"{fleets.scale}-mid-life-{n}.pcap" for n in range(2)]
    _captured(fleets, files, 0)
    whole = _house(fleets.folder / "mid-life-whole")
    nightly.run(whole, InProcess(fleets.passes.width), nightly.Asked([*map(str, files)]), Silent())
    (namesrv_id,) = whole.namesrvs_on(START)
    noon = dt.datetime.combine(START, dt.time(12), dt.timezone.utc) - dt.timedelta(milliseconds=1)
    state = fleets.folder / "mid-life.json"
    state.write_text(snapshot_at(_opened(whole.path), namesrv_id, noon), encoding="utf-8")
    values: dict[str, list[float]] = {"in mid-life": [], "state given": []}
    for _ in range(rounds):
        for name, snapshots in (("in mid-life", []), ("state given", [str(state)])):
            house = _house(fleets.folder / name.replace(" ", "-"))
            asked = nightly.Asked([str(files[1])], snapshots)
            values[name].append(nightly.run(house, InProcess(fleets.passes.width), asked, Silent()).seconds["replay"])
    return [Ratio("replay in mid-life ÷ with the state given", "in mid-life", "state given", values, 2)]


def _captured(fleets: Fleets, files: Sequence[Path], wrong: int) -> Captured:
    """Write captures of a day of a small fleet with many clients."""
    fleet = Fleet(START, brokers=24, namesrvs=1, outages=0.01, outage_s=(150, 900))
    traffic = Traffic(clients=_CLIENTS[fleets.scale], poll_s=_POLL_S[fleets.scale], wrong_answers=wrong)
    return capture(fleet, traffic, [START], files, files[0].with_suffix(".truth.jsonl"))


def _house(path: Path) -> Warehouse:
    """Return an empty warehouse."""
    shutil.rmtree(path, ignore_errors=True)
    return _opened(str(path))


def _opened(path: str) -> Warehouse:
    run = f"bench-{uuid.uuid4().hex[:8]}"
    return Warehouse(path, PipelineConf(), run, dt.datetime.now(dt.timezone.utc))
