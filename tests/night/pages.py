"""The command lines of README and docs, in the blocks in which they stand, and a folder like the one of a user who types them."""

from __future__ import annotations

import datetime as dt
import gzip
import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from jobs.session import BRIEF
from tests.night.nights import Capture, night
from tests.places import CAPTURE, CHECKOUT
from tests.wire.test_namesrv_log import FOURS

PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (CHECKOUT / "docs").glob("*.md")))
COMMAND = "./spark-submit.sh "
TRACE = CHECKOUT / "tests" / "core" / "traces" / "5.4.0" / "000.jsonl.gz"
EVENTS = 50
"""So many events are replayed by the line that replays a trace."""
FOLLOWED = ("docs/sres.md", "docs/auditors.md", "docs/data-engineers.md")
"""Pages that are typed from the first line to the last, after README's first command."""

_BLOCK = re.compile(r"^```([a-z ]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`((?:\w+=\S+ )?\./spark-submit\.sh [^`]+)`")
# What these lines ask takes minutes to hours, or is this very run: they are run with less to do, everything else as it stands.
_LESS = (
    (r"(spark-submit\.sh test)(?= *#)", r"\1 --collect-only -q tests/core/test_java_map.py"),
    (r"NAMESRV_(EXAMPLES=10|CLUSTER=1) .*", ""),  # further runs of tests: one of README is typed
    (r"\./spark-submit\.sh (lint|coverage) .*", ""),  # steps of CI
    (r"\./spark-submit\.sh mutate .*", ""),  # see test_mutation.py
    # The night of README runs on Spark; what others show of a night does not hang on that.
    (r"nightly (--input (-|rocketmqlogs/|captures/)|--from )", r"nightly --in-process \1"),
    (r"\bsql (?=.*--as-known-at)", "ask sql "),  # as other statements are asked of Spark
    (r"\bwhy\('TopicD', (?=.*\)\")", "coverage_at("),  # which Spark plans for half a minute: test_views.py
    (r"(oracle) --events .*", r"\1 --help"),  # see test_oracle.py
    (r"(torture rewrite) --seeds .*", r"\1 --help"),
    (r"(torture) flip .*", r"\1 --help"),  # see test_flips.py
    (r"--inputs 1000000", "--inputs 2000"),
    (r"(bench)(?: --scale full$|(?= *#))", r"\1 --help"),  # hours; see test_bench.py
)


class Block(NamedTuple):
    """Lines that are typed one after the other; `answer` are lines of what is printed, as the page shows them."""

    page: str
    lines: str
    answer: str

    @property
    def is_for_a_cluster(self) -> bool:
        """Return whether other machines are named, which no test has: what would be started is shown instead."""
        return "--master" in self.lines

    @property
    def is_ours(self) -> bool:
        """Return whether there is a command of this project, and none that records or goes on for good (`test_register`)."""
        return COMMAND in self.lines and not re.search(
            r"HiveThriftServer2|\btcpdump -|\brecord --(?:poll|listen)", self.lines
        )

    @property
    def commands(self) -> set[str]:
        """Return what is typed, without comments and with less to do."""
        lines = self.lines.replace("\\\n", " ")
        for long, short in _LESS:
            lines = re.sub(long, short, lines)
        return {" ".join(line.partition(" # ")[0].split()) for line in lines.splitlines()} - {""}

    @property
    def needs_java(self) -> bool:
        """Return whether one of the commands starts a JVM, or looks for Java."""
        asking = re.compile(r"\.sh (demo|sql|register|oracle|bench|test|nightly (?!--in-process))")
        return any(asking.search(command) for command in self.commands)


def named(block: Block) -> str:
    return f"{block.page} {block.lines[:60]!r}"


def _blocks(page: str) -> list[Block]:
    text = (CHECKOUT / page).read_text(encoding="utf-8")
    blocks = [*_BLOCK.findall(text), ("", "")]
    answers = [lines if kind == "answer" else "" for kind, lines in blocks[1:]]
    found = [Block(page, lines, answer) for (kind, lines), answer in zip(blocks, answers, strict=False) if not kind]
    found += [Block(page, f"{' '.join(line.split())}\n", "") for line in _INLINE.findall(text)]
    return [block for block in found if block.is_ours]


def plain_blocks(page: str) -> list[str]:
    """Return the lines of a page that are to be typed, whosever commands they are, block by block."""
    return [lines for kind, lines in _BLOCK.findall((CHECKOUT / page).read_text(encoding="utf-8")) if not kind]


def _different(blocks: list[Block]) -> list[Block]:
    """Return the blocks without those of which all commands stand in one other, that takes as many or more: typed once will do."""
    found: list[Block] = []
    for block in sorted(blocks, key=lambda block: (-len(block.commands), not block.answer)):
        if block.answer or not any(block.commands <= other.commands for other in found):
            found.append(block)
    return [block for block in blocks if block in found]


BLOCKS = [block for page in PAGES for block in _blocks(page)]
DIFFERENT = _different(BLOCKS)


def user_folder(folder: Path, page: str, whole: Capture) -> Path:
    """Make a folder with what the lines of `page` name: the wrapper, captures, warehouses, a trace, a Java that does not work."""
    (folder / "spark-submit.sh").symlink_to(CHECKOUT / "spark-submit.sh")
    (folder / "conf").symlink_to(CHECKOUT / "conf")
    (folder / "captures").mkdir()
    (folder / "captures" / CAPTURE.name).symlink_to(CAPTURE)
    if page == "docs/recording.md":
        (folder / "rocketmqlogs").mkdir()
        (folder / "rocketmqlogs" / "namesrv.log").write_text(FOURS, encoding="utf-8")
    (folder / "examples").symlink_to(CHECKOUT / "examples")
    (folder / "no-java").mkdir()
    (folder / "no-java" / "java").symlink_to("/bin/false")
    others = {"docs/auditors.md": ("old-warehouse",), "docs/data-engineers.md": ("warehouse",)}
    places = ("README.md", *FOLLOWED)
    for name in (
        *others.get(page, () if page in places else ("warehouse",)),
        *(("warehouse/demo",) if page in places else ()),
    ):
        # The lock is one on a file: linked, it would be that of all folders.
        ignored = shutil.ignore_patterns(".lease")
        shutil.copytree(whole.path, folder / name, copy_function=os.link, ignore=ignored)
    if page == "docs/data-engineers.md":
        notes = folder / "notes.jsonl"
        notes.write_text('{"schema": "namesrv-event/1", "kind": "notes"}\n' * 300, encoding="utf-8")
        night(folder / "warehouse", notes)
    with gzip.open(TRACE, "rb") as traced:
        (folder / "trace.jsonl").write_bytes(b"".join(itertools.islice(traced, EVENTS)))
    return folder


def shell(**more: str) -> dict[str, str]:
    """Return what a user's shell has; a JVM that lasts for a test compiles quickly, not for speed."""
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {BRIEF}"
    return {**os.environ, "NAMESRV_VENV": sys.prefix, "SPARK_SUBMIT_OPTS": options, **more}


def typed(block: Block, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the lines of a block by a shell that stops at the first that fails; standard input is a pipe that stays open.

    Where none starts a JVM, there is no Java that works.
    """
    lines = block.lines
    for long, short in _LESS:
        lines = re.sub(long, short, lines)
    # The night of these tests was published a moment ago.
    lines = lines.replace("2026-11-22T06:00:00Z", dt.datetime.now(dt.timezone.utc).isoformat())
    if block.is_for_a_cluster:
        lines = "\n".join(line for line in lines.splitlines() if not line.startswith(("hdfs ", "$SPARK_HOME")))
    path = os.environ["PATH"]
    if not block.needs_java:
        path = f"{folder}/no-java:{path}"
    reading, writing = os.pipe()
    try:
        return subprocess.run(
            ["bash", "-euc", lines],
            cwd=folder,
            env=shell(PATH=path, **({"NAMESRV_DRY_RUN": "1"} if block.is_for_a_cluster else {})),
            stdin=reading,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    finally:
        os.close(reading)
        os.close(writing)
