"""What a name server's settings are, by what is known of them: precedence, changes, restarts, hindsight."""

from __future__ import annotations

import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, NamesrvConfig
from namesrv_core.inference.configuration import statement_of
from namesrv_core.inference.settings import (
    OPTIONS,
    SCAN_PHASE,
    VERSION,
    Known,
    Life,
    Setting,
    Source,
    Statement,
    Value,
    Votes,
    default_of,
    namesrv_of,
    text_of,
    value_of,
)
from namesrv_core.inference.settle import reconsidered, settle
from namesrv_core.machine.profile import profile_named

NAME = "order_message_enable"
FIRST, SECOND = Life(100, "5.4.0", "v1"), Life(900, "5.4.0", "v2")


def votes(value: Value, answers: int, life: Life = FIRST, name: str = NAME) -> Votes:
    """Return `answers` votes for a value."""
    return Votes(life.from_seq, name, value, answers, ("a1",))


def values(known: Known, name: str = NAME) -> list[tuple[int, Value, str]]:
    """Return (since, value, source) of one setting."""
    return [(s.from_seq, s.value, s.source.value) for s in settle(known) if s.name == name]


def last(known: Known) -> dict[str, Setting]:
    """Return what the next day starts with."""
    return {setting.name: setting for setting in settle(known)}


def changed(seq: int, *, value: bool, has_file: bool | None = None) -> Statement:
    """Return an accepted UPDATE_NAMESRV_CONFIG."""
    return Statement(seq, f"u{seq}", {NAME: value}, changes=True, has_file=has_file)


def stated(seq: int, *, value: bool, has_file: bool | None = None) -> Statement:
    """Return an answer to GET_NAMESRV_CONFIG."""
    return Statement(seq, f"g{seq}", {NAME: value}, changes=False, has_file=has_file)


def test_without_a_word_everything_is_the_default() -> None:
    """Every setting of the generation is there, as RocketMQ ships it, and says that nothing speaks for it."""
    found = {s.name: (s.value, s.source) for s in settle(Known([Life(0)], fallback_version="5.4.0"))}
    assert found == {
        VERSION: ("5.4.0", Source.DEFAULT),
        **{name: (default_of(name, V5_4_0), Source.DEFAULT) for name in OPTIONS},
    }
    assert default_of("scan_period_ms", V5_4_0) == 5_000
    assert {s.name for s in settle(Known([Life(0)]))} == {VERSION, NAME, "channel_max_idle_ms"}


@pytest.mark.parametrize("value", [False, True])
def test_what_the_answers_show_holds_from_the_start_of_the_process(value: bool) -> None:  # noqa: FBT001
    """The evidence may come late; the value is the process's own from its first event on."""
    known = Known([FIRST], votes=[votes(value, 3), votes(not value, 1)])
    assert values(known) == [(100, value, "inferred")]
    (setting,) = [s for s in settle(known) if s.name == NAME]
    assert (setting.answers_for, setting.answers_against, setting.evidence) == (3, 1, ("a1",))


def test_a_tie_decides_nothing() -> None:
    """As many answers for either value leave the default."""
    assert values(Known([FIRST], votes=[votes(True, 2), votes(False, 2)])) == [(100, False, "default")]


def test_who_is_believed() -> None:
    """Given by the operator before stated by the server before inferred."""
    inferred = [votes(True, 9)]
    assert values(Known([FIRST], [stated(300, value=False)], inferred)) == [(100, False, "stated")]
    contradicted = Known([FIRST], [stated(300, value=False)], inferred, given={NAME: True})
    assert values(contradicted) == [(100, True, "given")]
    assert last(contradicted)[NAME].answers_against == 1


def test_a_change_holds_from_its_event_on() -> None:
    """The value before it is inferred or the default; the change is no evidence for what was before."""
    known = Known([FIRST], [changed(500, value=True)])
    assert values(known) == [(100, False, "default"), (500, True, "changed")]
    namesrv = namesrv_of(settle(known))
    assert [namesrv.at(seq).config.order_message_enable for seq in (0, 100, 499, 500, 10_000)] == [
        False,
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(("has_file", "after"), [(True, (True, "inherited")), (False, (False, "default"))])
def test_a_restart_reads_the_file_it_is_started_with(has_file: bool, after: tuple[bool, str]) -> None:  # noqa: FBT001
    """A change is written to the file given with -c, and read again; without one it is lost."""
    known = Known([FIRST, SECOND], [stated(200, value=False, has_file=has_file), changed(500, value=True)])
    assert values(known)[-1] == (900, *after)


def test_something_that_is_not_the_default_came_from_a_file() -> None:
    """Nothing but a file sets values at the start: then changes survive, too."""
    acting = votes(True, 5, name="support_acting_master")
    known = Known([FIRST, SECOND], [changed(500, value=True)], [acting])
    assert values(known)[-1] == (900, True, "inherited")
    assert values(Known([FIRST, SECOND], [changed(500, value=True)]))[-1] == (900, False, "default")


def test_a_new_process_may_have_been_configured_anew() -> None:
    """What it inherits stands until its own answers say otherwise."""
    before = [votes(True, 5)]
    assert values(Known([FIRST, SECOND], votes=before)) == [(100, True, "inferred"), (900, True, "inherited")]
    known = Known([FIRST, SECOND], votes=[*before, votes(False, 2, SECOND)])
    assert values(known) == [(100, True, "inferred"), (900, False, "inferred")]


def test_a_decided_value_is_carried_into_the_next_day() -> None:
    """Nothing is looked for again; evidence and start stay as they were."""
    first_day = Known([FIRST], votes=[votes(True, 3)])
    next_day = Known([Life(100)], votes=[votes(False, 99)], before=last(first_day))
    assert last(next_day)[NAME] == last(first_day)[NAME]


def test_a_change_of_the_day_before_still_holds() -> None:
    """Also where the operator has said with what the process started."""
    first_day = Known([FIRST], [changed(500, value=True)], given={NAME: False})
    next_day = Known([Life(100)], given={NAME: False}, before=last(first_day))
    assert values(next_day) == [(500, True, "changed")]


@pytest.mark.parametrize(
    "found", [{"votes": [votes(True, 3)]}, {"statements": [stated(700, value=True)]}], ids=["inferred", "stated"]
)
def test_a_default_that_turns_out_wrong_concerns_the_days_before(found: dict[str, list[object]]) -> None:
    """They are named, and with that hindsight they are replayed as the later day was."""
    first_day = Known([FIRST])
    before = last(first_day)
    settled = settle(Known([Life(100)], before=before, **found))  # type: ignore[arg-type]
    (wrong,) = reconsidered(settled, before)
    assert (wrong.name, wrong.value, wrong.life_seq) == (NAME, True, 100)
    again = Known([FIRST], hindsight={(NAME, 100): wrong})
    assert values(again) == [(100, True, wrong.source.value)]
    assert reconsidered(settle(Known([Life(100)], before=last(again), **found)), last(again)) == []  # type: ignore[arg-type]


def test_nothing_is_reconsidered_for_another_process_or_a_change() -> None:
    """A change and a restart explain another value; the days before were right."""
    before = last(Known([FIRST]))
    known = Known([Life(100), SECOND], [changed(500, value=True)], [votes(True, 3, SECOND)], before=before)
    assert reconsidered(settle(known), before) == []


def phase(value: int, answers: int, life: Life = FIRST) -> Votes:
    """Return `answers` closes that show this phase of the scan."""
    return votes(value, answers, life, SCAN_PHASE)


def test_the_phase_of_scans_is_known_by_process_or_not_at_all() -> None:
    """It has no default and is inherited by nobody; what a later day found holds for days before it."""
    assert values(Known([FIRST]), SCAN_PHASE) == []
    found = Known([FIRST, SECOND], votes=[phase(7_000, 3), phase(9_000, 1)])
    assert values(found, SCAN_PHASE) == [(100, 7_000, "inferred")]
    assert values(Known([Life(100), SECOND], before=last(Known([FIRST], votes=[phase(7_000, 3)]))), SCAN_PHASE) == [
        (100, 7_000, "inferred")
    ]
    (setting,) = [s for s in settle(found) if s.name == SCAN_PHASE]
    assert (setting.answers_for, setting.answers_against) == (3, 1)
    assert values(Known([FIRST], hindsight={(SCAN_PHASE, 100): setting}), SCAN_PHASE) == [(100, 7_000, "inferred")]
    assert namesrv_of(settle(found)) == namesrv_of(settle(Known([FIRST, SECOND])))
    assert value_of(SCAN_PHASE, text_of(setting.value)) == 7_000


@pytest.mark.parametrize(
    ("cast", "value"),
    [([], 7_000), ([phase(9_000, 1)], 7_000), ([phase(9_000, 2)], 9_000), ([phase(9_000, 5), phase(7_000, 1)], 7_000)],
)
def test_a_phase_stays_until_several_closes_of_a_day_refute_it(cast: list[Votes], value: int) -> None:
    """One close may have another reason; two that agree, and none that agrees with what was, are a clock that was set."""
    before = last(Known([FIRST], votes=[phase(7_000, 1)]))
    known = Known([Life(100)], votes=cast, before=before)
    assert values(known, SCAN_PHASE) == [(100, value, "inferred")]
    assert reconsidered(settle(known), before) == []


def test_days_before_a_phase_was_found_are_replayed_again() -> None:
    """Their ticks were guessed; those of another process were not this one's."""
    before = last(Known([FIRST]))
    (found,) = reconsidered(
        settle(Known([Life(100), SECOND], votes=[phase(7, 1), phase(8, 1, SECOND)], before=before)), before
    )
    assert (found.name, found.value, found.life_seq) == (SCAN_PHASE, 7, 100)
    assert (
        reconsidered(
            settle(Known([Life(100)], before=before, hindsight={(SCAN_PHASE, 100): found})),
            last(Known([FIRST], votes=[phase(7, 1)])),
        )
        == []
    )


def test_an_upgrade_is_a_process_of_another_generation() -> None:
    """Each process is replayed by its own rules, and takes nothing of what the other generation does not know."""
    old, new = Life(100, "4.9.7", "v1"), Life(900, "5.4.0", "v2")
    namesrv = namesrv_of(settle(Known([old, new], votes=[votes(True, 3, new, "support_acting_master")])))
    assert namesrv.at(899) == Namesrv(V4_9_7, NamesrvConfig(), namesrv.later)
    assert namesrv.at(900) == Namesrv(V5_4_0, NamesrvConfig(support_acting_master=True, scan_period_ms=5_000))
    back = namesrv_of(settle(Known([Life(100, "5.4.0", "v"), Life(900, "4.9.7", "w")], votes=[votes(True, 3)])))
    assert back.at(900).config == NamesrvConfig(order_message_enable=True)


def test_a_day_begins_with_what_held_before_it() -> None:
    """Values of a process that started days ago are there from the first event of the day."""
    before = last(Known([FIRST], [changed(500, value=True)], [votes(True, 3, name="support_acting_master")]))
    namesrv = namesrv_of(settle(Known([Life(100)], before=before)), from_seq=1_000)
    assert namesrv.later == ()
    assert (namesrv.config.order_message_enable, namesrv.config.support_acting_master) == (True, True)


def test_the_scan_keeps_its_period_until_the_restart() -> None:
    """The timer is set when the process starts; a change shows with the next one, if it went into a file."""
    update = Statement(500, "u", {"scan_period_ms": 1_000}, changes=True, has_file=True)
    assert values(Known([FIRST, SECOND], [update]), "scan_period_ms") == [
        (100, 5_000, "default"),
        (900, 1_000, "default"),
    ]


def test_properties_are_read_as_the_server_reads_them() -> None:
    """Only what matters is kept; what cannot be parsed says nothing; a limit of 0 seconds is none."""
    text = (
        "#comment\norderMessageEnable=TRUE\n supportActingMaster = no\nserverChannelMaxIdleTimeSeconds=600\n"
        "scanNotActiveBrokerInterval=x\nrocketmqHome=/opt\ntlsKeyPassword=geheim\n"
    )
    said = statement_of(1, "e", text, changes=False)
    assert said.values == {NAME: True, "support_acting_master": False, "channel_max_idle_ms": 600_000}
    assert said.has_file is None
    assert "geheim" not in str(said)
    assert statement_of(1, "e", "serverChannelMaxIdleTimeSeconds=0", changes=True).values == {
        "channel_max_idle_ms": None
    }


@pytest.mark.parametrize(
    ("path", "has_file"),
    [
        ("/root/namesrv/namesrv.properties", False),
        ("C:\\u\\namesrv\\namesrv.properties", False),
        ("/etc/ns.conf", True),
    ],
)
def test_where_the_configuration_is_stored_tells_whether_a_file_was_given(path: str, has_file: bool) -> None:  # noqa: FBT001
    """Without -c it is a place from which nothing is read."""
    assert statement_of(1, "e", f"configStorePath={path}", changes=False).has_file is has_file


def test_values_survive_as_text() -> None:
    """What is written into a table is read back the same."""
    for name, value in (
        (NAME, True),
        (NAME, False),
        ("channel_max_idle_ms", None),
        ("scan_period_ms", 5),
        (VERSION, "5.3.1"),
    ):
        assert value_of(name, text_of(value)) == value


def test_a_change_that_the_day_before_ended_with_is_not_taken_twice() -> None:
    """Its statement, seen again, adds no second value; what comes after it does."""
    before = last(Known([FIRST], [changed(500, value=True)]))
    again = Known([Life(100)], [changed(500, value=True), changed(600, value=False)], before=before)
    assert values(again) == [(500, True, "changed"), (600, False, "changed")]


def test_a_value_that_changed_unseen_holds_from_where_it_is_stated() -> None:
    """Two answers to GET_NAMESRV_CONFIG differ: the second is a new value, and what a restart would read."""
    known = Known([FIRST, SECOND], [stated(200, value=False), stated(500, value=True)])
    assert values(known) == [(100, False, "stated"), (500, True, "stated"), (900, True, "inherited")]


@pytest.mark.parametrize("version", ["3.6.2", "", "five"])
def test_versions_of_other_generations_are_errors(version: str) -> None:
    """Only 4.x and 5.x are known; the message says so."""
    with pytest.raises(ValueError, match=r"known are 4\.x \(as 4\.9\.7\) and 5\.x \(as 5\.4\.0\)"):
        profile_named(version)
    assert (profile_named("4.9.7"), profile_named("5.4.0")) == (V4_9_7, V5_4_0)
