"""The table order_decisions: events whose order the wire does not show."""

from __future__ import annotations

from schemas.gold_histories import DAY
from schemas.recorded import NAMESRV_ID
from schemas.rule import DAY_OF_EFFECT, is_hex, warn
from schemas.table import INT, LONG, STRING, STRINGS, TIMESTAMP, Rule, Table, required

ORDER_DECISIONS = Table(
    "order_decisions",
    "gold",
    "events whose order the wire does not show",
    (
        NAMESRV_ID,
        required("decision_id", STRING, "Deterministic id, 32 hex digits"),
        required(
            "kind",
            STRING,
            "register_and_close (a request without response on a connection that closes at once), "
            "removal_and_registration (a broker's new registration while its old connection ends), "
            "ends_of_shared_channel (each event of its end takes down one of the brokers of a connection, or finds the same one "
            "again), overlapping_requests, one_way_and_request (nothing answers the first of them)",
        ),
        required("effect_time", TIMESTAMP, "When"),
        required("channel_ids", STRINGS, "Connections concerned"),
        required("event_ids", STRINGS, "The events, in the default order"),
        required("alternatives", STRINGS, "The orders in words, the default first"),
        required("chosen", INT, "Which alternative was taken, from 0"),
        required(
            "answers_for", LONG, "Answers that only the chosen order explains, of those looked at until one decided"
        ),
        required("answers_against", LONG, "Answers of these that only another order explains"),
        required("evidence_for", STRINGS, "Those answers (event ids)"),
        required("evidence_against", STRINGS, "The answers that only another order explains (event ids)"),
        DAY,
    ),
    key=("day", "namesrv_id", "decision_id"),
    made_by="settle",
    rules=(
        DAY_OF_EFFECT,
        Rule("decision_id_is_a_digest", is_hex("decision_id", 32), "decision_id is 32 hex digits."),
        Rule(
            "chosen_is_an_alternative",
            "chosen >= 0 AND chosen < len(alternatives)",
            "chosen is one of the alternatives.",
        ),
        Rule(
            "there_is_a_choice",
            "len(alternatives) >= 2 AND len(event_ids) >= 1",
            "A decision has two alternatives or more.",
        ),
        Rule("answers_are_counted", "answers_for >= 0 AND answers_against >= 0", "Counts of answers are 0 or more."),
        warn(
            "answers_agree",
            "answers_against <= answers_for",
            "More answers speak for the chosen order than against it.",
        ),
    ),
)
