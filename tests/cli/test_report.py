"""What a night shows a person."""

from __future__ import annotations

import io
from collections import Counter

import pytest

from jobs.cli.commands import show_run
from jobs.cli.output import Console
from jobs.night.nightly import Summary

NUMBERS = {
    **dict.fromkeys(("answers", "matched", "same_order", "same_bytes"), 1_196),
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


@pytest.mark.parametrize(
    ("summary", "why"),
    [
        (
            Summary(known_sources=["a"], last_run="r"),
            "Nothing new since run r. Tables and answers below are those of the last run.",
        ),
        (Summary(empty=["input x holds no files"]), "No input: the folders that were given hold no files."),
        (
            Summary(sources=["a"], errors=["a: cannot be read"]),
            "Nothing usable: what could be read of the input adds nothing (see NOT READ below).",
        ),
        (Summary(), "No input, and nothing recorded yet."),
    ],
)
def test_a_run_that_does_nothing_says_which_reason_it_has(summary: Summary, why: str) -> None:
    """Known files, empty folders, files without use and no input at all are different things, and have different sentences."""
    assert shown(summary)[1] == why


def test_frames_are_shown_with_what_became_of_them() -> None:
    """One line with each class of the law of conservation; what is no whole frame is counted apart."""
    read = Summary(
        frames=28_021, pieces=1, events=142, observations=13_877, quarantined=1, ignored=Counter(known=14_002)
    )
    assert (
        "Frames       28,021 (+1 incomplete): 142 events, 13,877 answers, 0 duplicates, 14,002 ignored by rule, 1 quarantined"
        in shown(read)
    )


def test_mismatches_are_those_of_all_answers_shown() -> None:
    """A response to an event that does not match stands in the line above, and is one of the mismatched."""
    others = {"register_broker": {"answers": 1_196, "matched": 1_195}}
    lines = shown(Summary(verify={**NUMBERS, "others": others, "mismatched": 1}))
    at = lines.index("             1,195 of 1,196 responses to register_broker too")
    assert lines[at + 1] == "             1 mismatched; 0 order decision(s), see order_decisions"
