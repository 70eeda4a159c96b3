"""A file of a warehouse is damaged: whoever asks gets the answer that was there, or a refusal that names what is wrong."""

from __future__ import annotations

import random
import shutil
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from jobs.ask.engine import Answers
from jobs.errors import JobError
from jobs.store.check import check
from jobs.store.maintain import maintain
from tests.night.nights import night, warehouse_at
from tests.night.three_days import DAYS, LOGS, MONTH_MS, beat, registration, write_log

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
DAMAGES = ("flip", "flip", "flip", "half", "less by one", "one byte", "emptied", "gone", "older")


class Given(NamedTuple):
    """A warehouse, the log that the next night reads, the answers before it, and that night's digests."""

    path: Path
    late: Path
    answers: list[str]
    digests: dict[str, str]


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
    again = Path(shutil.copytree(path, folder / "again"))
    return Given(path, late, answers(path), dict(night(again, late).digests))


def answers(path: Path, *, is_verified: bool = True) -> list[str]:
    """Return the rows of each question, in any order, as text."""
    asked = Answers(str(path), is_verified=is_verified)
    return [str(sorted(map(repr, asked.ask(question).rows))) for question in QUESTIONS]


def damage(path: Path, dice: random.Random) -> str:
    """Damage a file of some kind; return its name and what was done."""
    files = [
        file
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != ".lease" and "data_docs" not in file.parts
    ]
    kinds: dict[str, list[Path]] = {}
    for file in files:
        inside = "log" if "_delta_log" in file.parts else "data"
        kinds.setdefault(f"{file.relative_to(path).parts[:2]}{inside}{file.suffix}", []).append(file)
    file = dice.choice(kinds[dice.choice(sorted(kinds))])
    how, data = dice.choice(DAMAGES), file.read_bytes()
    others = [other for other in file.parent.glob(f"*{file.suffix}") if other != file and other.read_bytes() != data]
    if how == "older" and others:
        shutil.copyfile(dice.choice(sorted(others)), file)
    elif how == "gone":
        file.unlink()
    elif how == "flip" and data:
        place = dice.randrange(len(data))
        file.write_bytes(data[:place] + bytes([data[place] ^ 1 << dice.randrange(8)]) + data[place + 1 :])
    else:
        file.write_bytes(data[: {"half": len(data) // 2, "less by one": len(data) - 1, "one byte": 1}.get(how, 0)])
    return f"{how}: {file.relative_to(path)}"


def flip(seed: int, folder: Path) -> tuple[str, str]:
    """Damage a copy; return `survived`, `refused`, `unverified` or `silent`, and what happened."""
    dice, known = random.Random(seed), given()
    path = Path(shutil.copytree(known.path, folder / f"{seed}"))
    done = damage(path, dice)
    name = done.partition(": ")[2]
    refusals, silent, unverified = list[str](), list[str](), list[str]()

    def tell(what: str, error: BaseException) -> None:
        if not isinstance(error, JobError):
            silent.append(f"{what}: {''.join(traceback.format_exception(error)[-3:])}")
        elif not any(part and part in str(error) for part in (name, name.split("/")[1] if "/" in name else name)):
            silent.append(f"{what} names nothing: {error}")
        else:
            refusals.append(f"{what}: {error}")

    def ask(is_verified: bool) -> None:  # noqa: FBT001  as below
        if answers(path, is_verified=is_verified) != known.answers:
            (silent if is_verified else unverified).append(f"other answers, verified: {is_verified}")

    def go_on() -> None:
        if dict(night(path, known.late).digests) != known.digests:
            silent.append("the next night publishes other tables")

    steps: dict[str, Callable[[], object]] = {
        "ask --verified": lambda: ask(True),
        "ask": lambda: ask(False),
        "check": lambda: refusals.extend(check(warehouse_at(path)).wrong),
        "night": go_on,
    }
    for what, step in steps.items():
        try:
            step()
        except Exception as error:  # noqa: BLE001, PERF203  whatever it is, it is told
            tell(what, error)
    shutil.rmtree(path, ignore_errors=True)
    if unverified and not refusals:
        silent += unverified
    outcome = "silent" if silent else "unverified" if unverified else "refused" if refusals else "survived"
    return outcome, f"{done} -> {' | '.join(silent or unverified or refusals[:1])}"
