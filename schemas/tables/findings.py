"""The table findings."""

from __future__ import annotations

from schemas.gold_histories import DAY
from schemas.recorded import NAMESRV_ID
from schemas.rule import each, has_form
from schemas.table import LONG, STRING, STRINGS, TIMESTAMP, Column, Rule, Table, required

FINDINGS = Table(
    "findings",
    "gold",
    "one thing that an operator should know, with its evidence, on the day on which it began; once more on the day on which it "
    "ended, if that is a later one",
    (
        NAMESRV_ID,
        required("code", STRING, "Code from the catalogue"),
        required("severity", STRING, "critical, warning or info"),
        required(
            "subject",
            STRING,
            "Broker, topic, cluster or key concerned; of several with one cause the first, and how many more",
        ),
        required("from_time", TIMESTAMP, "Day of its start, also where only its end is reported"),
        Column("to_time", TIMESTAMP, "End; NULL = not over when its day ended"),
        Column("detail", STRING, "In words, with the first few of what it touches"),
        required("evidence", STRINGS, "event ids, that which began it first; of many the first 20"),
        required("brokers", LONG, "How many broker names it touches"),
        required("broker_names", STRINGS, "The first ten of them, by name"),
        required("topics", LONG, "How many topics it touches"),
        required("topic_names", STRINGS, "The first ten of them, by name"),
        DAY,
    ),
    key=("day", "namesrv_id", "code", "subject", "from_time", "evidence"),
    made_by="flags",
    shows_changes=True,
    rules=(
        Rule("code_has_its_form", has_form("code", "[A-Z][A-Z0-9_]*"), "code is in capitals."),
        Rule(
            "severity_is_known",
            "severity IN ('critical', 'warning', 'info')",
            "severity is critical, warning or info.",
        ),
        Rule(
            "time_does_not_run_back",
            "to_time IS NULL OR from_time <= to_time",
            "from_time is not after to_time.",
        ),
        Rule("begins_by_its_day", "CAST(from_time AS DATE) <= day", "A finding does not begin after its day."),
        Rule(
            "has_evidence",
            "len(evidence) > 0 AND " + each("evidence", "e <> ''"),
            "A finding names its events.",
        ),
    ),
)
