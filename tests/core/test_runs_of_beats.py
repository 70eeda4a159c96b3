"""Runs of heartbeats: what one of them does, the run does, and its lease lasts from the last of them."""

from __future__ import annotations

import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, Profile
from namesrv_core.machine.events import BrokerHeartbeat, QueryDataVersion, RefreshRun, RegisterBroker
from namesrv_core.machine.registry import Outcome, Registry
from namesrv_core.machine.tables import DataVersion, LiveKey, TopicConfig, TopicTable
from namesrv_core.replay.loop import is_unknown, take

VERSION = DataVersion(0, 1, 1)
MASTER = RegisterBroker(
    "C", "10.0.0.1:10911", "a", 0, None, VERSION, TopicTable([TopicConfig("T", 4, 4, 6, 0)] * 1), None, "channel"
)


@pytest.fixture(params=[V4_9_7, V5_4_0], ids=lambda profile: profile.name)
def profile(request: pytest.FixtureRequest) -> Profile:
    """Give each generation."""
    found: Profile = request.param
    return found


@pytest.fixture
def registry(profile: Profile) -> Registry:
    """Give a registry in which a master is registered at 0."""
    registry = Registry(profile)
    topics = TopicTable([TopicConfig("T", 4, 4, 6, 0), TopicConfig("U", 4, 4, 6, 0)])
    take(registry, MASTER._replace(topics=topics), 0, Namesrv(profile))
    return registry


@pytest.mark.parametrize(
    "beat",
    [
        MASTER,
        MASTER._replace(topics=None),
        BrokerHeartbeat("C", "10.0.0.1:10911"),
        QueryDataVersion("C", "10.0.0.1:10911", VERSION),
    ],
    ids=lambda beat: type(beat).__name__,
)
def test_a_run_renews_the_lease_as_of_its_last_beat(registry: Registry, profile: Profile, beat: RegisterBroker) -> None:
    """Every form of heartbeat that changes nothing makes a run that leaves the tables as they are and renews the lease."""
    before = registry.copy()
    if is_unknown(beat, Namesrv(profile)):  # of 4.x
        assert take(registry, RefreshRun(beat), 5_000, Namesrv(profile)).outcome is Outcome.NO_EFFECT
        return
    taken = take(registry, RefreshRun(beat), 5_000, Namesrv(profile))
    key = LiveKey("C" if profile.live_key_has_cluster else None, "10.0.0.1:10911")
    assert (taken.outcome, taken.changes, taken.refreshed) == (Outcome.REFRESHED, (), key)
    assert registry.holds_the_same_as(before)
    assert registry.last_update_ms == {key: 5_000}


@pytest.mark.parametrize(
    "beat",
    [
        BrokerHeartbeat("C", "10.0.0.9:10911"),
        QueryDataVersion("C", "10.0.0.1:10911", DataVersion(0, 2, 2)),
        MASTER._replace(data_version=DataVersion(0, 2, 2)),
        MASTER._replace(channel_id="another"),
        MASTER._replace(topics=TopicTable([TopicConfig("gone", 4, 4, 6, 0)])),
    ],
    ids=["unknown", "asks for another version", "new version", "new channel", "a topic that 5.x would bring back"],
)
def test_a_run_does_what_its_beat_does(registry: Registry, profile: Profile, beat: RegisterBroker) -> None:
    """Whoever has made a run of what does more, or less, than renew a lease sees it by its step."""
    once = registry.copy()
    taken = take(registry, RefreshRun(beat), 5_000, Namesrv(profile))
    assert taken == take(once, beat, 5_000, Namesrv(profile))
    assert registry.holds_the_same_as(once)
