"""Which beats of quiet units the core must try, and which columns tell to renew a lease only."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, Profile
from namesrv_day.plan.plan import runs, uneventful
from namesrv_day.replay.trial import failed_trials, unsure
from schemas.bronze import TOPIC_CONFIGS_TABLE
from tests.day.plan_rows import VERSION, Row, context, hours, live, opened, row

LIVE, REPORTED = "broker_live_history", "data_version_history"
NODES = pa.table({"node": ["a:1:1", "n:one", "a"], "unit": ["u", "u", "u"]})
NOTHING_EVENTFUL = pa.table({"unit": pa.array([], pa.string()), "period": pa.array([], pa.int64())})


def state(told: Row | None = None, cluster_name: str | None = "C", **entry: Any) -> dict[str, pa.Table]:
    """What was open when the day began: a live entry, and what its broker had reported."""
    reported = {"data_version": VERSION} if told is None else told
    return {
        LIVE: live(-20, data_version=VERSION, cluster_name=cluster_name, **entry),
        REPORTED: opened(REPORTED, reported),
    }


def tried(beat: Row, before: dict[str, pa.Table], profile: Profile) -> tuple[int, set[str]]:
    """How many of one beat the core must try, and which units fail if it tries all."""
    of = context(Namesrv(profile))
    beats = uneventful(hours(beat), NODES, NOTHING_EVENTFUL)
    assert beats.num_rows == 1
    failed = failed_trials(of, runs(beats, profile), before, lambda _: TOPIC_CONFIGS_TABLE.schema.empty_table())
    return unsure(of, beats, before).num_rows, failed


@pytest.mark.parametrize("profile", [V4_9_7, V5_4_0], ids=lambda profile: profile.name)
def test_a_beat_of_the_version_that_is_there_need_not_be_tried(profile: Profile) -> None:
    """Nor would the core find that it did more."""
    before = state(cluster_name="C" if profile.live_key_has_cluster else None)
    assert tried(row("heartbeats", 30), before, profile) == (0, set())
    light = tried(row("heartbeats", 30, code=904, data_version=None), before, profile)
    assert light == ((0, set()) if profile.has_topic_registration else (1, {"u"}))  # 4.x does not know it


OTHER = {"state_version": None, "timestamp": 1, "counter": 2}


@pytest.mark.parametrize(
    ("beat", "before", "profile"),
    [
        (row("heartbeats", 30, data_version=OTHER), state(cluster_name=None), V4_9_7),
        (row("heartbeats", 30), state({"data_version": OTHER}, None), V4_9_7),
        (row("heartbeats", 30), state({"data_version": VERSION, "broker_name": "two"}, None), V4_9_7),
        (row("heartbeats", 30), state(None, None, broker_addr="2:1"), V4_9_7),
        (row("heartbeats", 30), state(), V4_9_7),
        (row("heartbeats", 30), state(cluster_name="D"), V5_4_0),
        (row("heartbeats", 30, cluster_name=None), state(cluster_name=None), V5_4_0),
        (row("heartbeats", 30, code=904, data_version=None), state(cluster_name="D"), V5_4_0),
        (row("heartbeats", 30, broker_addr=None), state(broker_addr=None), V5_4_0),
    ],
)
def test_beats_that_may_do_more_are_tried(beat: Row, before: dict[str, pa.Table], profile: Profile) -> None:
    """What the core finds to do more than renew a lease, columns never call plain."""
    assert tried(beat, before, profile) == (1, {"u"})


def test_what_columns_do_not_compare_is_the_cores_to_say() -> None:
    """A version without one, and one that 4.x reads otherwise than it was sent."""
    assert tried(row("heartbeats", 30, data_version=None), state(), V5_4_0)[0] == 1
    sent = {"state_version": 3, "timestamp": 1, "counter": 1}
    before = {LIVE: live(-20, data_version=sent, cluster_name=None), REPORTED: opened(REPORTED, {"data_version": sent})}
    assert tried(row("heartbeats", 30, data_version=sent), before, V4_9_7)[0] == 1
    before[LIVE] = live(-20, data_version=sent)
    assert tried(row("heartbeats", 30, data_version=sent), before, V5_4_0)[0] == 0
