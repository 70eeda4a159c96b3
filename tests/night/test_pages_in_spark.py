"""The command lines of README and docs that start a JVM, run as they stand there: through the wrapper, in a user's folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.night.nights import Capture
from tests.night.pages import BLOCKS, DIFFERENT, FOLLOWED, Block, named, typed, user_folder

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

SHELL = "./spark-submit.sh sql --warehouse warehouse/demo\n"
TESTED_IN_TEST_REGISTER = ("./spark-submit.sh register", 'eval "$(./spark-submit.sh shell-env)"\n"$SPARK_HOME')


@pytest.mark.parametrize(
    "block", [block for block in DIFFERENT if block.needs_java and block.page not in FOLLOWED], ids=named
)
def test_commands_of_the_pages_end_well(whole: Capture, block: Block, tmp_path: Path) -> None:
    """Line after line, in one folder; where other machines are named, the command that would be started is shown."""
    done = typed(block, user_folder(tmp_path, block.page, whole))
    assert done.returncode == 0, done.stdout + done.stderr
    if block.is_for_a_cluster:
        assert "PYSPARK_SUBMIT_ARGS" in done.stdout


@pytest.mark.parametrize("page", FOLLOWED)
def test_a_page_can_be_followed_from_the_first_line_to_the_last(whole: Capture, page: str, tmp_path: Path) -> None:
    """After README's first command, in one folder, in order; where an answer is shown, it is given line by line.

    Lines that another page has, too, are typed there.
    """
    folder = user_folder(tmp_path, page, whole)
    elsewhere = {command for block in DIFFERENT if block.page not in FOLLOWED for command in block.commands}
    blocks = [block for block in BLOCKS if block.page == page and block.lines != SHELL]
    blocks = [block for block in blocks if block.answer or not block.commands <= elsewhere]
    for block in (block for block in blocks if not block.lines.startswith(TESTED_IN_TEST_REGISTER)):
        done = typed(block, folder)
        assert done.returncode == 0, f"{block.lines}{done.stdout}{done.stderr}"
        assert [line for line in block.answer.splitlines() if line.strip() not in done.stdout] == []


def test_the_shell_takes_statements_from_a_pipe(whole: Capture, tmp_path: Path) -> None:
    """The documented line without a statement reads them from standard input, one after the other.

    A file that a task behind a shuffle does not find ends it, in one sentence and with 8, whatever Spark logs.
    """
    assert any(block.lines == SHELL for block in BLOCKS)
    folder = user_folder(tmp_path, "docs/sres.md", whole)
    path = next((folder / "warehouse" / "demo" / "gold" / "topic_queue_history").rglob("*.parquet"))
    path.unlink()
    asked = "SELECT count(*) AS runs, 'äö' AS letters FROM runs;\nSELECT sum(length(topic)) FROM topic_queue_history;\n"
    done = typed(Block("docs/sres.md", f'printf %s "{asked}" | {SHELL}', ""), folder)
    assert (done.returncode, "äö" in done.stdout) == (8, True), done.stderr
    (line,) = (line for line in done.stderr.splitlines() if "incubator modules" not in line)
    where = path.relative_to(folder)
    assert re.match(rf"namesrv-history: topic_queue_history: cannot be read: \S*{where}: it is not there", line)
