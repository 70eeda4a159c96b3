"""What a night shows a person."""

from __future__ import annotations

import io

from jobs.cli.console import Console
from jobs.cli.report import show_run
from jobs.night.nightly import Summary

NUMBERS = {
    "answers": 1_196,
    "matched": 1_196,
    "same_order": 1_196,
    "same_bytes": 1_196,
    "explained": {},
    "order_decisions": 0,
}


def shown(summary: Summary) -> list[str]:
    """Return the lines that a night shows."""
    out = io.StringIO()
    show_run(summary, Console(out, io.StringIO()))
    return out.getvalue().splitlines()


def test_files_that_were_known_are_not_said_to_be_read() -> None:
    """Of two files one of which was read in an earlier night the new one is read now."""
    (line,) = (line for line in shown(Summary(sources=["b"], known_sources=["a"])) if line.startswith("Read"))
    assert line == "Read         b (read before: a)"
    (line,) = (line for line in shown(Summary(known_sources=["a"])) if line.startswith("Read"))
    assert line == "Read         nothing new (read before: a)"


def test_mismatches_are_those_of_all_answers_shown() -> None:
    """A response to an event that does not match stands in the line above, and is one of the mismatched."""
    others = {"register_broker": {"answers": 1_196, "matched": 1_195}}
    lines = shown(Summary(verify={**NUMBERS, "others": others, "mismatched": 1}))
    at = lines.index("             1,195 of 1,196 responses to register_broker too")
    assert lines[at + 1] == "             1 mismatched; 0 order decision(s), see order_decisions"
