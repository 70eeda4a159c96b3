"""What README and docs say can be asked or typed, asked and typed; commands that start a JVM: `test_pages_in_spark`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from itertools import chain
from pathlib import Path

import pytest

from jobs.ask.engine import Answers
from schemas.dialect import duckdb_queries
from tests.night.nights import Capture
from tests.night.pages import BLOCKS, DIFFERENT, FOLLOWED, PAGES, Block, named, plain_blocks, typed, user_folder
from tests.night.stock import stock
from tests.pcap import pcap
from tests.places import CHECKOUT
from tests.wire.capture_files import PAYLOADS
from tests.wire.wrapped import WRAPPINGS

_SQL = re.compile(r"```sql\n(.*?)```", re.DOTALL)
_STOCK = re.compile(r"```duckdb\n(.*?)```", re.DOTALL)
_TCPDUMP = re.compile(r"^(?!\|).*?\btcpdump (-.*)$", re.MULTILINE)
_FILTER = re.compile(r"""['"]([^'"]*\bport \d[^'"]*)['"]""")
_TUNNELS = ("VXLAN", "VXLAN of Linux", "Geneve", "GRE", "ERSPAN II", "ERSPAN III", "IP in IP", "IP in IPv6")
TAKES = {
    "tcp port 9876": ("ethernet",),
    "tcp port 9876 or (vlan and tcp port 9876)": ("ethernet", "VLAN"),
    "udp port 4789 or udp port 8472 or udp port 6081 or proto 47 or proto 4 or proto 41": _TUNNELS,
    "mpls and tcp port 9876": ("MPLS",),
    "pppoes and tcp port 9876": ("PPPoE",),
    "tcp port 9876 or (ip[6:2] & 0x1fff != 0)": ("ethernet",),
}
"""The filters that the pages have for tcpdump, and what they take a packet out of."""
STATEMENTS = [
    sql
    for page in PAGES
    for block in _SQL.findall((CHECKOUT / page).read_text(encoding="utf-8"))
    for sql in block.split(";\n")
    if "..." not in sql
]


def test_there_is_something_to_ask() -> None:
    """The pages have statements, commands and answers, or these tests would see nothing; each command is typed somewhere."""
    assert len(STATEMENTS) > 15
    assert sum(block.lines.count("spark-submit.sh ") for block in BLOCKS) > 50
    assert sum(bool(block.answer) for block in BLOCKS) > 2
    assert not [block for block in BLOCKS if block.answer and block.needs_java]
    typed_once = set[str]().union(*(block.commands for block in DIFFERENT))
    assert typed_once == set[str]().union(*(block.commands for block in BLOCKS))
    assert len(typed_once) > 40


@pytest.mark.parametrize("sql", STATEMENTS)
def test_every_statement_of_the_pages_can_be_asked(whole: Capture, sql: str) -> None:
    """In DuckDB; where it names an instant or a topic, these are the capture's."""
    for query in duckdb_queries(sql):
        assert Answers(str(whole.path)).ask(query).names


def test_what_the_pages_ask_of_any_duckdb_is_answered(whole: Capture) -> None:
    """Statements for the file beside the tables, by stock DuckDB: each gives rows."""
    blocks = [block for page in PAGES for block in _STOCK.findall((CHECKOUT / page).read_text(encoding="utf-8"))]
    asked = [sql for block in blocks for sql in block.split(";\n") if sql.strip()]
    assert len(asked) > 2
    with stock(whole.path, "Asia/Tokyo") as connection:
        for sql in asked:
            assert connection.execute(sql).fetchall(), sql


@pytest.mark.parametrize(
    "block", [block for block in DIFFERENT if not block.needs_java and block.page not in FOLLOWED], ids=named
)
def test_commands_of_the_pages_end_well(whole: Capture, block: Block, tmp_path: Path) -> None:
    """As they stand there, through the wrapper, without Java; where an answer is shown below them, they give it line by line."""
    done = typed(block, user_folder(tmp_path, block.page, whole))
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in block.answer.splitlines() if line.strip() not in done.stdout] == []


def test_filters_of_the_pages_take_what_the_pages_say(tmp_path: Path) -> None:
    """Each is known here; where tcpdump is installed it takes packets out of what it is for, and `tcp port` none of a tunnel."""
    blocks = chain.from_iterable(plain_blocks(page) for page in PAGES)
    lines = [line for block in blocks for line in _TCPDUMP.findall(block)]
    filters = {part for line in lines for part in _FILTER.findall(line)}
    assert len(lines) > 6
    assert filters == TAKES.keys()
    if shutil.which("tcpdump") is None:
        pytest.skip("tcpdump is not installed")
    path = tmp_path / "a.pcap"
    for wanted, names in [*TAKES.items(), ("tcp port 9876", ())]:
        for name in names or _TUNNELS:
            path.write_bytes(pcap([WRAPPINGS[name].frame(bytes(PAYLOADS["v4"]))] * 3))
            done = subprocess.run(["tcpdump", "-nn", "-r", path, wanted], capture_output=True, text=True, check=True)
            assert len(re.findall(r"^\d\d:", done.stdout, re.MULTILINE)) == (3 if names else 0), (wanted, name)


def test_a_trace_comes_through_a_pipe_too(whole: Capture, tmp_path: Path) -> None:
    """The line that replays a trace gives the hashes that the trace itself has, from a file and from a pipe."""
    folder = user_folder(tmp_path, "docs/developing.md", whole)
    expected = [json.loads(line)["h"] for line in (folder / "trace.jsonl").read_text(encoding="utf-8").splitlines()]
    page = (CHECKOUT / "docs" / "developing.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^(.*submit\.sh trace .*) < trace\.jsonl", page, re.MULTILINE)
    for asked in (f"{line} < trace.jsonl", f"cat trace.jsonl | {line}"):
        done = typed(Block("docs/developing.md", asked, ""), folder)
        assert [json.loads(result)["h"] for result in done.stdout.splitlines()] == expected, done.stderr
