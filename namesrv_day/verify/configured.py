"""Hold answers to GET_NAMESRV_CONFIG against what is known of the configuration, as `namesrv_settings` has it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from namesrv_core.inference.configuration import NOTHING_KNOWN, Configuration, lines_of
from namesrv_core.inference.settings import CONFIGURATION, Source
from namesrv_core.machine.codes import RequestCode, ResponseCode
from namesrv_core.machine.instants import NS_PER_US
from namesrv_day.arrow.rows import rows_of, with_microseconds
from schemas.table import BOOLEAN, INT, STRING

ABOUT_CONFIGURATION = pc.field("code") == RequestCode.GET_NAMESRV_CONFIG
_FLAGS = ("matched", "same_order", "same_bytes", "in_flight", "unseen", "is_open")
VERDICTS = pa.schema(
    [
        ("code", INT),
        ("rows", pa.list_(pa.int64())),
        ("answers", pa.int64()),
        *((name, BOOLEAN) for name in _FLAGS),
        *(("late", STRING), ("expected", STRING)),
    ]
)
"""Columns of verdicts on single answers, as `verify` has them: `rows` is the number of the answer.

`is_open`: it differs in nothing that is known. What is compared are properties as they are kept: the bytes are those of the text
that stands for the answer.
"""


class _State(NamedTuple):
    """What is known of the configuration from a position on; `arrival_seq`: since when it may have been so."""

    from_seq: int
    arrival_seq: int
    configuration: Configuration
    is_guess: bool


def compared(singles: pa.Table, said: pa.Table, settings: pa.Table, told: pa.Table, first: int) -> pa.Table:
    """Return verdicts (`VERDICTS`) on answers to GET_NAMESRV_CONFIG, in the order of `singles`, numbered from `first`.

    `singles`: columns `answered.SINGLES`; `said`: what they say, with its number `row`; `settings`: the day's rows of
    namesrv_settings; `told`: its rows of admin_events. An answer is compared with what is known from behind an earlier one, or
    behind a change; while a change was under way, with both.
    """
    states = _states(settings, told)
    starts = [state.from_seq for state in states]
    answers = {row["row"]: row for row in rows_of(said.select(["row", "response_code", "body"]))}

    @lru_cache(1_024)
    def verdict(number: int, body: str | None) -> Literal["equal", "reordered", "open", "other"]:
        state = states[number]
        found = state.configuration.compared(lines_of(body or "", changes=False))
        return "open" if found == "other" and state.is_guess else found

    rows = []
    for row, one in enumerate(rows_of(singles), first):
        nominal = bisect_left(starts, one["seq"]) - 1
        earliest = max(0, bisect_left(starts, one["request_seq"]) - 1)
        # What arrived before the answer may have been so already.
        last = nominal
        while last + 1 < len(states) and states[last + 1].arrival_seq < one["seq"]:
            last += 1
        answer = answers[one["said"]]
        numbers = [nominal, *(number for number in range(earliest, last + 1) if number != nominal)]
        found = {number: verdict(number, answer["body"]) for number in numbers}
        if answer["response_code"] != ResponseCode.SUCCESS:
            found = dict.fromkeys(numbers, "other")
        number = next((n for n in numbers if found[n] in ("equal", "reordered")), nominal)
        rows.append(_row(row, found, number, nominal, states[number].configuration))
    return pa.Table.from_pylist(rows, schema=VERDICTS)


def _row(row: int, found: Mapping[int, str], number: int, nominal: int, expected: Configuration) -> dict[str, Any]:
    is_equal, matched = found[number] == "equal", found[number] in ("equal", "reordered")
    return {
        "code": RequestCode.GET_NAMESRV_CONFIG,
        "rows": [row],
        "answers": 1,
        "matched": matched,
        "same_order": is_equal,
        "same_bytes": is_equal,
        "in_flight": matched and number != nominal,
        "unseen": False,
        "is_open": not matched and "open" in found.values(),
        "late": None,
        "expected": None if matched else expected.text,
    }


def _states(settings: pa.Table, told: pa.Table) -> list[_State]:
    changes = with_microseconds(told.filter(pc.field("code") == RequestCode.UPDATE_NAMESRV_CONFIG))
    arrived = dict(zip(changes["event_id"].to_pylist(), changes["event_time"].to_pylist(), strict=True))
    rows = settings.filter(pc.field("setting") == CONFIGURATION).sort_by("from_seq")
    states = [_State(-1, -1, NOTHING_KNOWN, is_guess=True)]
    for row in rows_of(rows):
        at = [arrived[event_id] * NS_PER_US for event_id in row["evidence"] if event_id in arrived]
        is_guess = row["source"] == Source.INHERITED.value
        from_seq = row["from_seq"]
        states.append(_State(from_seq, min([from_seq, *at]), Configuration.of(row["value"]), is_guess))
    return states
