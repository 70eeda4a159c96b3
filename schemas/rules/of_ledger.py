"""The rules of the ledger and of what it restated."""

from __future__ import annotations

from schemas.rules.rule import Rule, each, is_hex, warn

LEDGER: dict[str, tuple[Rule, ...]] = {
    "runs": (
        Rule(
            "status_is_known",
            "status IN ('published', 'refused')",
            "status is published or refused.",
        ),
        Rule(
            "gate_agrees",
            "status NOT IN ('published', 'refused') OR (status = 'published') = (gate = 'passed')",
            "What is published passed the gate, what is refused did not.",
        ),
        Rule("config_has_a_digest", is_hex("config_sha256", 64), "config_sha256 is 64 hex digits."),
        Rule(
            "figures_are_not_negative",
            " AND ".join(each(f"map_values({figures})", "e >= 0") for figures in ("versions", "counts", "seconds")),
            "Versions, counts and seconds are 0 or more.",
        ),
        warn("time_does_not_run_back", "started_time <= finished_time", "A run does not end before it starts."),
    ),
    "restatements": (
        Rule(
            "something_changed",
            "rows_added + rows_removed > 0 AND least(rows_added, rows_removed) >= 0",
            "A restated slice has rows that were added or removed.",
        ),
        Rule(
            "rows_add_up",
            "rows_before + rows_added - rows_removed = rows_after",
            "Rows before, and those added less those removed, are the rows after.",
        ),
        Rule(
            "cause_is_known",
            "cause IN ('events', 'earlier_day', 'configuration', 'code')",
            "cause is events, earlier_day, configuration or code.",
        ),
        Rule(
            "events_are_counted",
            "(cause = 'events') = (new_events > 0) AND new_events >= len(event_ids)",
            "New events, and only they, are the cause events; there are as many as are named, or more.",
        ),
        Rule(
            "changes_are_counted",
            "len(changes) <= rows_added + rows_removed AND "
            + each("changes", "e.change IN ('added', 'removed', 'changed')"),
            "No more rows are shown than changed.",
        ),
    ),
}
