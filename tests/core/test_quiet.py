"""Runs of heartbeats: what one beat does, the run does, and nothing else; slots that no lease can end between."""

from __future__ import annotations

import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, Profile
from namesrv_core.machine.draft import Outcome
from namesrv_core.machine.events import BrokerHeartbeat, QueryDataVersion, RefreshRun, RefusedRequest, RegisterBroker
from namesrv_core.machine.quiet import NotQuietError, slot_seconds
from namesrv_core.machine.registry import Registry
from namesrv_core.machine.rows import DataVersion, LiveKey, TopicConfig, TopicTable
from namesrv_core.replay.take import is_unknown, take

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
        with pytest.raises(NotQuietError):
            take(registry, RefreshRun(beat), 5_000, Namesrv(profile))
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
        MASTER._replace(data_version=DataVersion(0, 2, 2)),
        MASTER._replace(channel_id="another"),
        RefusedRequest("no such broker"),
    ],
    ids=["unknown", "new version", "new channel", "refused"],
)
def test_a_run_that_does_more_or_less_is_refused(registry: Registry, profile: Profile, beat: RegisterBroker) -> None:
    """A beat of an unknown address, one that changes a row, and one that was refused make no run."""
    with pytest.raises(NotQuietError):
        take(registry, RefreshRun(beat), 5_000, Namesrv(profile))


def test_a_topic_that_5x_would_bring_back_makes_no_run(registry: Registry, profile: Profile) -> None:
    """5.x writes a topic that is missing although the version is the stored one; 4.x does not look."""
    run = RefreshRun(MASTER._replace(topics=TopicTable([TopicConfig("gone", 4, 4, 6, 0)])))
    if profile.repairs_missing_topics:
        with pytest.raises(NotQuietError):
            take(registry, run, 5_000, Namesrv(profile))
    else:
        assert take(registry, run, 5_000, Namesrv(profile)).changes == ()


@pytest.mark.parametrize(("lease_ms", "seconds"), [(1_999, None), (2_000, 1), (10_000, 5), (119_999, 30), (10**6, 60)])
def test_two_slots_fit_into_a_lease(lease_ms: int, seconds: int | None) -> None:
    """A slot is at most half a lease, and sixty of them divide an hour."""
    assert slot_seconds(lease_ms) == seconds
    assert seconds is None or (2_000 * seconds <= lease_ms and 3_600 % (60 * seconds) == 0)
