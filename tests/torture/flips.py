"""A file of a warehouse is damaged: whoever asks gets the answer that was there, or a refusal that names what is wrong."""

from __future__ import annotations

import random
import shutil
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import pytest

from jobs.ask.engine import Answers
from jobs.errors import JobError
from jobs.store.check import check
from jobs.store.maintain import maintain
from tests.boundaries import at_commits
from tests.ingest.given import warehouse_at
from tests.night.nights import night
from tests.night.three_days import DAYS, LOGS, MONTH_MS, beat, registration, write_log
from tests.store.tiny import linked

QUESTIONS = (
    "SELECT * FROM topic_queue_table_at(TIMESTAMP '2026-03-02 12:00:00')",
    "SELECT * FROM route_at('T', TIMESTAMP '2026-03-03 12:00:00')",
    "SELECT code, subject, from_time, to_time, detail FROM findings",
    "SELECT * EXCLUDE (ingest_run) FROM events",
    "SELECT * FROM expired_brokers",
    "SELECT * EXCLUDE (run_id, previous_run, ingest_runs) FROM restatements",
    "SELECT content_sha256 FROM sources",
    "SELECT days, counts, digests FROM runs",
    "SELECT * FROM broker_live_history",
)
TOGETHER = 6
"""How many files are damaged at once: `check` is to name each."""
DAMAGES = ("flip", "flip", "flip", "half", "less by one", "one byte", "emptied", "gone", "older")


class Given(NamedTuple):
    """A warehouse, the log that the next night reads, the answers before it, that night's digests, and where it may be killed."""

    path: Path
    late: Path
    answers: list[str]
    digests: dict[str, str]
    points: Sequence[str] = ()


@cache
def given() -> Given:
    """Return a warehouse of three days and a restatement, compacted, with a night on top."""
    folder = Path(mkdtemp(prefix="namesrv-flips-"))
    path = folder / "w"
    for day, lines in zip(DAYS, LOGS, strict=True):
        night(path, write_log(folder, day, lines))
    night(path, write_log(folder, DAYS[1], [registration("broker-c", "12:30:00", "V", 120_000)], "-restating"))
    maintain(warehouse_at(path, "care"))
    night(path, write_log(folder, DAYS[2], [beat("14:00:00")], "-more"))
    late = write_log(folder, DAYS[2], [registration("broker-d", "15:00:00", "W", MONTH_MS)], "-late")
    again, points = Path(shutil.copytree(path, folder / "again")), list[str]()
    with pytest.MonkeyPatch.context() as patched:
        at_commits(patched, points.append)
        digests = dict(night(again, late).digests)
    random.Random("points").shuffle(points)
    return Given(path, late, answers(path), digests, points)


def answers(path: Path, *, is_verified: bool = True) -> list[str]:
    """Return the rows of each question, in any order, as text."""
    asked = Answers(str(path), is_verified=is_verified)
    return [str(sorted(map(repr, asked.ask(question).rows))) for question in QUESTIONS]


def damages(path: Path, dice: random.Random) -> list[tuple[str, Path]]:
    """Return what is done to which files: to one of those on which all hangs, or to one of each of some tables."""
    kinds: dict[str, list[Path]] = {}
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.name != ".lease" and "data_docs" not in file.parts:
            name = file.relative_to(path)
            kinds.setdefault(f"{name.parts[:2]}{'_delta_log' in name.parts}{file.suffix}", []).append(name)
    chosen = [dice.choice(kinds[kind]) for kind in dice.sample(sorted(kinds), len(kinds))]
    tables = {
        file.parts[1]: file for file in chosen if len(file.parts) > 2 and file.parts[1] not in ("runs", "sources")
    }
    files = list(tables.values())[:TOGETHER] if dice.random() < 0.75 else chosen[:1]
    return [(dice.choice(DAMAGES), file) for file in files]


def damage(path: Path, how: str, name: Path, dice: random.Random) -> None:
    """Damage a file."""
    file = path / name
    data = file.read_bytes()
    file.unlink()  # it is a link
    others = [other for other in file.parent.glob(f"*{file.suffix}") if other != file and other.read_bytes() != data]
    if how == "older" and others:
        shutil.copyfile(dice.choice(sorted(others)), file)
    elif how == "gone":
        pass
    elif how == "flip" and data:
        place = dice.randrange(len(data))
        file.write_bytes(data[:place] + bytes([data[place] ^ 1 << dice.randrange(8)]) + data[place + 1 :])
    else:
        file.write_bytes(data[: {"half": len(data) // 2, "less by one": len(data) - 1, "one byte": 1}.get(how, 0)])


def flip(seed: int, folder: Path) -> tuple[str, str]:
    """Damage some files of a copy; return `survived`, `refused`, `unverified` or `silent`, and what happened.

    What nobody has named is damaged once more, alone, and then a night goes on from it, as from every tenth.
    """
    dice = random.Random(seed)
    done = damages(given().path, dice)
    outcome, said, unnamed = _flipped(folder / f"{seed}", done, seed, goes_on=len(done) == 1 or seed % 10 == 0)
    for number, one in enumerate(unnamed if len(done) > 1 else []):
        again = _flipped(folder / f"{seed}-{number}", [one], seed, goes_on=True)
        outcome, said = max(
            (outcome, said), again[:2], key=lambda of: ("survived", "refused", "unverified", "silent").index(of[0])
        )
    return outcome, said


def _flipped(
    path: Path, done: list[tuple[str, Path]], seed: int, *, goes_on: bool
) -> tuple[str, str, list[tuple[str, Path]]]:
    """Return also which damages nobody has named."""
    known, dice = given(), random.Random(seed)
    linked(known.path, path)
    for how, name in done:
        damage(path, how, name, dice)
    refusals, silent, unverified = list[str](), list[str](), list[str]()

    def is_named(name: Path, text: str) -> bool:
        return str(name) in text or (len(name.parts) > 1 and name.parts[1] in text)

    def tried(what: str, step: Callable[[], object]) -> bool:
        """Return whether nothing was refused; what is refused without being named, or ends in a stack trace, is silent."""
        before = len(refusals)
        try:
            step()
        except JobError as error:
            is_told = any(is_named(name, str(error)) for _, name in done)
            (refusals if is_told else silent).append(f"{what}{'' if is_told else ' names nothing'}: {error}")
            return False
        except Exception as error:  # noqa: BLE001  whatever it is, it is told
            silent.append(f"{what}: {''.join(traceback.format_exception(error)[-3:])}")
        return len(refusals) == before

    def ask(is_verified: bool) -> None:  # noqa: FBT001  as below
        if answers(path, is_verified=is_verified) != known.answers:
            (silent if is_verified else unverified).append(f"other answers, verified: {is_verified}")

    def go_on() -> None:
        if dict(night(path, known.late).digests) != known.digests:
            silent.append("the next night publishes other tables")

    tried("ask", lambda: ask(False))
    is_well = tried("check", lambda: refusals.extend(check(warehouse_at(path)).wrong))
    if unverified or seed % 10 == 0:
        tried("ask --verified", lambda: ask(True))
    if goes_on and (is_well or seed % 10 == 0):
        tried("night", go_on)
    shutil.rmtree(path, ignore_errors=True)
    if unverified and not refusals:
        silent += unverified
    outcome = "silent" if silent else "unverified" if unverified else "refused" if refusals else "survived"
    unnamed = [(how, name) for how, name in done if not is_named(name, "\n".join(refusals))]
    damaged = ", ".join(f"{how}: {name}" for how, name in done)
    return outcome, f"{damaged} -> {' | '.join(silent or unverified or refusals[:1])}", unnamed
