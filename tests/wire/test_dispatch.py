"""The request layer: twenty recorded traces as requests, and what they do not show."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from namesrv_core.asking.answers import remark_matches
from namesrv_core.machine.codes import Answer
from tests.core.request_layer import dispatch, serve
from tests.wire.request_of import request_of
from tests.wire.trace_requests import frame_of
from tools.trace.trace import Trace
from tools.trace.trace_state import StateText

TRACES = sorted((Path(__file__).parent.parent / "core" / "traces").glob("*/*.jsonl.gz"))
VERSIONS = {"4.9.7": 407, "5.4.0": 493}


def equals(answered: Answer | None, wire: dict[str, Any]) -> bool:
    """Return whether an answer is the recorded one: code, remark, header fields and body text."""
    if "response" in wire or answered is None:
        return answered is None and wire == {"response": None}
    head = (answered.code, dict(answered.fields), answered.body) == (wire["code"], wire["ext"], wire["body"])
    return head and remark_matches(wire["remark"], answered.remark)


def test_traces_are_there() -> None:
    """The comparison below covers ten traces of each generation; an empty folder must not pass."""
    assert [path.parent.name for path in TRACES] == ["4.9.7"] * 10 + ["5.4.0"] * 10


@pytest.mark.parametrize("path", TRACES, ids=lambda path: f"{path.parent.name}-{path.name[:3]}")
def test_requests_of_a_trace_get_the_recorded_answers_and_leave_the_recorded_states(path: Path) -> None:
    """Each event that exists as a request goes through frame, header, body and dispatch as a recorded one would.

    Code, remark, header fields, body text and the state afterwards are those of the real thing. What no request does
    (scans, closes, restarts) is applied directly; so is a deferred unregistration, whose answer is compared all the same.
    """
    trace = Trace()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    for recorded in records:
        ev, wire = recorded["ev"], recorded.get("wire")
        frame = frame_of(ev, VERSIONS[path.parent.name])
        if wire is None or frame is None:
            assert wire is None
            trace.take(ev)
        else:
            request = request_of(frame, ev["t_ms"], ev.get("ch"))
            if ev.get("defer"):
                answered = dispatch(trace.registry, request, ev["t_ms"], trace.namesrv).answer
                trace.take(ev)
            else:
                answered = serve(trace.registry, request, ev["t_ms"], trace.namesrv).answer
            assert equals(answered, wire), (recorded["i"], ev, answered, wire)
        assert StateText(trace.registry).digest() == recorded["h"], (recorded["i"], ev)
