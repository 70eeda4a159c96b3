"""The table past_knowledge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from namesrv_core.machine.past import ANY, Entity, Fact
from schemas.gold_histories import DAY
from schemas.recorded import NAMESRV_ID
from schemas.rule import is_one_of
from schemas.table import BOOLEAN, LONG, STRING, Column, Rule, Table, required

PAST_KNOWLEDGE = Table(
    "past_knowledge",
    "internal",
    "one thing that is known, or in doubt, of a name server whose recording began in the middle of its life",
    (
        NAMESRV_ID,
        required("what", STRING, "known, doubted, listed, beat, channel or setting"),
        required("about", STRING, "History table (without _history), or what has no rows of its own"),
        Column("one", STRING, "First part of the key: topic, broker name, cluster ..."),
        Column("other", STRING, "Second part of the key"),
        required("any_one", BOOLEAN, "It holds for every first part"),
        required("any_other", BOOLEAN, "It holds for every second part"),
        required("number", LONG, "Serial number: the later of known and doubted counts; or a time or a setting"),
        DAY,
    ),
    key=("day", "namesrv_id", "what", "about", "one", "other", "any_one", "any_other"),
    made_by="replay",
    rules=(
        Rule(
            "what_is_named",
            is_one_of("what", ("known", "doubted", "listed", "beat", "channel", "setting")),
            "what is known, doubted, listed, beat, channel or setting.",
        ),
        Rule(
            "any_has_no_part",
            "NOT (any_one AND one IS NOT NULL) AND NOT (any_other AND other IS NOT NULL)",
            "What holds for every part of a key names none.",
        ),
    ),
)


def past_row(fact: Fact, namesrv_id: str) -> dict[str, Any]:
    """Return the row of `fact` in `past_knowledge`, without `day`."""
    kind, one, other = fact.entity
    return {
        "namesrv_id": namesrv_id,
        "what": fact.what,
        "about": kind,
        "one": None if one is ANY or one is None else str(one),
        "other": None if other is ANY or other is None else str(other),
        "any_one": one is ANY,
        "any_other": other is ANY,
        "number": fact.number,
    }


def fact_of(row: Mapping[str, Any]) -> Fact:
    """Return the fact of a row of `past_knowledge`."""
    other = row["other"]
    if row["about"] == "broker_addr" and other is not None:
        other = int(other)
    entity = Entity(row["about"], ANY if row["any_one"] else row["one"], ANY if row["any_other"] else other)
    return Fact(row["what"], entity, row["number"])
