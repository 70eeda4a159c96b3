"""Rows of findings: one that keeps every rule, and for each rule one that breaks it and no other."""

from __future__ import annotations

from tests.day.row_values import DAY, E1, MINUTE, NAMESRV, NOON, ONE_DAY

GOOD = {
    "namesrv_id": NAMESRV,
    "brokers": 1,
    "broker_names": ["broker-a"],
    "topics": 0,
    "topic_names": [],
    "code": "NO_MASTER",
    "severity": "info",
    "from_time": NOON,
    "evidence": [E1],
    "begun_with": 1,
    "told_on": DAY,
    "day": DAY,
}


def own(n: int) -> dict[str, object]:
    return {"subject": f"subject-{n}"}


NULLED = "subject"
PLANTED = {
    "code_has_its_form": {"code": "no master"},
    "severity_is_known": {"severity": "dreadful"},
    "time_does_not_run_back": {"to_time": NOON - MINUTE, "ended_on": DAY},
    "begins_by_its_day": {"from_time": NOON + ONE_DAY},
    "closes_whole": {"to_time": NOON},
    "was_there_on_the_day": {"to_time": NOON, "ended_on": DAY + ONE_DAY},
    "keeps_its_beginning": {"evidence": [E1, E1]},
    "has_evidence": {"evidence": [], "begun_with": 0},
}
