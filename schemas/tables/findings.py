"""The table findings: what an operator should know."""

from __future__ import annotations

from schemas.table import CLOSED_MONTH, Table, columns, each, has_form, rules

FINDINGS = Table(
    "findings",
    "gold",
    "one thing that an operator should know, with its evidence, however many days it lasts",
    columns("""
        namesrv_id
        code* STRING: Code from the catalogue
        severity* STRING: critical, warning or info
        subject* STRING: Broker, topic, cluster or key concerned; if several have one cause, the first and how many more
        from_time* TIMESTAMP: Start
        to_time TIMESTAMP: End; NULL = not over
        detail STRING: What happened, in words, with the first few names; numbers are of the day on which it began
        evidence* ARRAY<STRING>: event_ids, beginning with the event that began it; the first 20 if many, 20 more at its end
        brokers* BIGINT: Number of broker names affected
        broker_names* ARRAY<STRING>: First ten of these broker names, by name
        topics* BIGINT: Number of topics affected
        topic_names* ARRAY<STRING>: First ten of these topics, by name
        begun_with* BIGINT: Number of evidence ids when it began; its end added the others
        told_on* DATE: UTC date on which it was first reported
        ended_on DATE: UTC date on which its end was reported; NULL = not over
    """),
    key=("namesrv_id", "code", "subject", "from_time", "evidence", "told_on"),
    partition_by=(CLOSED_MONTH,),
    span=("told_on", "ended_on"),
    made_by="flags",
    rules=rules(f"""
        code_has_its_form: code is in capitals.
            {has_form("code", "[A-Z][A-Z0-9_]*")}
        severity_is_known: severity is critical, warning or info.
            severity IN ('critical', 'warning', 'info')
        time_does_not_run_back: from_time is not after to_time.
            to_time IS NULL OR from_time <= to_time
        begins_by_its_day: A finding is not reported before it begins.
            CAST(from_time AS DATE) <= told_on
        closes_whole: A finding that is over has to_time and ended_on.
            (to_time IS NULL) = (ended_on IS NULL)
        was_there_on_the_day: A finding was there on the day.
            told_on <= day AND (ended_on IS NULL OR ended_on = day)
        keeps_its_beginning: Only an end on a later day adds to the evidence.
            begun_with <= len(evidence) AND (ended_on > told_on OR begun_with = len(evidence))
        has_evidence: A finding names its events.
            len(evidence) > 0 AND {each("evidence", "e <> ''")}
    """),
)
