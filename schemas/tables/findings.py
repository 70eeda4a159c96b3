"""The table findings."""

from __future__ import annotations

from schemas.recorded import NAMESRV_ID
from schemas.rule import each, has_form
from schemas.table import CLOSED_MONTH, DATE, LONG, STRING, STRINGS, TIMESTAMP, Column, Rule, Table, required

FINDINGS = Table(
    "findings",
    "gold",
    "one thing that an operator should know, with its evidence, however many days it lasts",
    (
        NAMESRV_ID,
        required("code", STRING, "Code from the catalogue"),
        required("severity", STRING, "critical, warning or info"),
        required(
            "subject",
            STRING,
            "Broker, topic, cluster or key concerned; of several with one cause the first, and how many more",
        ),
        required("from_time", TIMESTAMP, "Start"),
        Column("to_time", TIMESTAMP, "End; NULL = not over"),
        Column("detail", STRING, "In words, with the first few of what it touches"),
        required(
            "evidence", STRINGS, "event ids, that which began it first; of many the first 20, and 20 more when it ended"
        ),
        required("brokers", LONG, "How many broker names it touches"),
        required("broker_names", STRINGS, "The first ten of them, by name"),
        required("topics", LONG, "How many topics it touches"),
        required("topic_names", STRINGS, "The first ten of them, by name"),
        required("begun_with", LONG, "How many of the evidence it began with; its end added the others"),
        required("told_on", DATE, "UTC date on which it was first told"),
        Column("ended_on", DATE, "UTC date on which it was told that it is over; NULL = it is not"),
    ),
    key=("namesrv_id", "code", "subject", "from_time", "evidence", "told_on"),
    partition_by=(CLOSED_MONTH,),
    span=("told_on", "ended_on"),
    made_by="flags",
    shows_changes=True,
    rules=(
        Rule("code_has_its_form", has_form("code", "[A-Z][A-Z0-9_]*"), "code is in capitals."),
        Rule(
            "severity_is_known", "severity IN ('critical', 'warning', 'info')", "severity is critical, warning or info."
        ),
        Rule("time_does_not_run_back", "to_time IS NULL OR from_time <= to_time", "from_time is not after to_time."),
        Rule("begins_by_its_day", "CAST(from_time AS DATE) <= told_on", "A finding is not told before it begins."),
        Rule(
            "closes_whole", "(to_time IS NULL) = (ended_on IS NULL)", "A finding that is over has to_time and ended_on."
        ),
        Rule(
            "was_there_on_the_day",
            "told_on <= day AND (ended_on IS NULL OR ended_on = day)",
            "A finding was there on the day.",
        ),
        Rule(
            "keeps_its_beginning",
            "begun_with <= len(evidence) AND (ended_on > told_on OR begun_with = len(evidence))",
            "Only an end on a later day adds to the evidence.",
        ),
        Rule("has_evidence", "len(evidence) > 0 AND " + each("evidence", "e <> ''"), "A finding names its events."),
    ),
)
