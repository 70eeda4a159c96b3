"""What a name server's settings are, by what is known of them: precedence, changes, restarts, hindsight."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from namesrv_core import V4_9_7, V5_4_0, Namesrv, NamesrvConfig
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
    in_hindsight,
    namesrv_of,
    reconsidered,
    settle,
    statement_of,
    text_of,
    value_of,
)
from tests.situations import Language, Situation, title

NAME = "order_message_enable"
FIRST = Life(100, "5.4.0", "v1")


def life(from_seq: int, version: str | None = None) -> Life:
    return Life(from_seq, version, None if version is None else f"v{from_seq}")


def votes(value: Value, answers: int, life: int = 100, name: str = NAME) -> Votes:
    """Return `answers` votes for a value."""
    return Votes(life, name, value, answers, ("a1",))


def changed(seq: int, value: Value, name: str = NAME, *, has_file: bool | None = None) -> Statement:
    """Return an accepted UPDATE_NAMESRV_CONFIG."""
    return Statement(seq, f"u{seq}", {name: value}, changes=True, has_file=has_file)


def stated(seq: int, value: Value, *, has_file: bool | None = None) -> Statement:
    """Return an answer to GET_NAMESRV_CONFIG, of one setting."""
    return Statement(seq, f"g{seq}", {NAME: value}, changes=False, has_file=has_file)


LANGUAGE = Language(
    {
        "life": ("lives", life),
        "votes": ("votes", votes),
        "changed": ("statements", changed),
        "stated": ("statements", stated),
        "given": ("given", lambda name, value: (name, value)),
    },
    {},
    dt.date(1970, 1, 1),
)


def last(known: Known) -> dict[str, Setting]:
    """Return what the next day starts with."""
    return {setting.name: setting for setting in settle(known)}


@pytest.mark.parametrize("story", LANGUAGE.stories(Path(__file__).with_name("settings.txt")), ids=title)
def test_what_is_known_of_a_setting(story: list[Situation]) -> None:
    """Since when which value holds, how that is known, and what a day knows better than those before it."""
    name = story[0].name
    before: dict[str, Setting] = {}
    wrong: list[Setting] = []
    for day in story:
        hindsight = {(found.name, found.life_seq): found for found in wrong}
        if day.name == "again":
            before = {}
        of: dict[str, list[Any]] = {"lives": [], "statements": [], "votes": [], "given": [], **day.rows}
        known = Known(
            of["lives"], of["statements"], of["votes"], given=dict(of["given"]), before=before, hindsight=hindsight
        )
        settled = settle(known)
        wrong = reconsidered(settled, before)
        found = [s for s in settled if s.name == name]
        lines = [line.split() for line in day.found]
        better = [(name, LANGUAGE.value(line[2]), int(line[1])) for line in lines if line[0] == "wrong"]
        assert [(s.name, s.value, s.life_seq) for s in wrong] == better
        lines = [line for line in lines if line[0] != "wrong"]
        assert [[str(s.from_seq), s.source.value] for s in found] == [line[:2] for line in lines]
        for s, (_, _, value, *answers) in zip(found, lines, strict=True):
            assert s.value == LANGUAGE.value(value)
            assert [str(s.answers_for), str(s.answers_against), *s.evidence][: len(answers)] == answers
        before = {setting.name: setting for setting in settled}


def test_without_a_word_everything_is_the_default() -> None:
    """Every setting of the generation is there, as RocketMQ ships it, and says that nothing speaks for it."""
    found = {s.name: (s.value, s.source) for s in settle(Known([Life(0)], fallback_version="5.4.0"))}
    assert found == {
        VERSION: ("5.4.0", Source.DEFAULT),
        **{name: (default_of(name, V5_4_0), Source.DEFAULT) for name in OPTIONS},
    }
    assert default_of("scan_period_ms", V5_4_0) == 5_000
    assert {s.name for s in settle(Known([Life(0)]))} == {VERSION, NAME, "channel_max_idle_ms"}


def test_an_upgrade_is_a_process_of_another_generation() -> None:
    """Each process is replayed by its own rules, and takes nothing of what the other generation does not know."""
    old, new = Life(100, "4.9.7", "v1"), Life(900, "5.4.0", "v2")
    namesrv = namesrv_of(settle(Known([old, new], votes=[votes(True, 3, new.from_seq, "support_acting_master")])))
    assert namesrv.at(899) == Namesrv(V4_9_7, NamesrvConfig(), namesrv.later)
    assert namesrv.at(900) == Namesrv(V5_4_0, NamesrvConfig(support_acting_master=True, scan_period_ms=5_000))
    assert namesrv.spans == [(0, 900, namesrv), (900, None, namesrv.at(900))]
    back = namesrv_of(settle(Known([Life(100, "5.4.0", "v"), Life(900, "4.9.7", "w")], votes=[votes(True, 3)])))
    assert back.at(900).config == NamesrvConfig(order_message_enable=True)


def test_when_a_process_scans_is_no_option_of_it() -> None:
    """The schedule has the phase."""
    phased = settle(Known([FIRST], votes=[votes(7_000, 2, name=SCAN_PHASE)]))
    assert SCAN_PHASE in {setting.name for setting in phased}
    assert namesrv_of(phased) == namesrv_of(settle(Known([FIRST])))


def test_a_day_begins_with_what_held_before_it() -> None:
    """Values of a process that started days ago are there from the first event of the day."""
    before = last(Known([FIRST], [changed(500, value=True)], [votes(True, 3, name="support_acting_master")]))
    namesrv = namesrv_of(settle(Known([Life(100)], before=before)), from_seq=1_000)
    assert namesrv.later == ()
    assert (namesrv.config.order_message_enable, namesrv.config.support_acting_master) == (True, True)


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
        (SCAN_PHASE, 7_000),
        (VERSION, "5.3.1"),
    ):
        assert value_of(name, text_of(value)) == value


def test_what_a_day_has_shown_before_it_shows_anew() -> None:
    """Read by another run it counts by what the day has now, and earlier days follow; settled again by this run, it stays."""
    known = Known([FIRST], votes=[votes(True, 3)])
    (first,) = (one for one in settle(known) if one.name == NAME)
    shown = {NAME: in_hindsight(first)}
    assert (shown[NAME].answers_for, shown[NAME].evidence) == (0, ("a1",))

    def found(answers: list[Votes], before: dict[str, Setting]) -> tuple[Value, Source, int, bool]:
        now = settle(replace(known, votes=answers, before=before, shown_before=shown))
        (one,) = (one for one in now if one.name == NAME)
        return one.value, one.source, one.answers_for, one in reconsidered(now, {**before, **shown})

    more, others = [votes(True, 5)], [votes(True, 3), votes(False, 7)]
    assert found(more, {}) == (True, Source.INFERRED, 5, False)
    assert found(others, {}) == (False, Source.INFERRED, 7, True)
    assert found([], {}) == (False, Source.DEFAULT, 0, True)
    assert found(more, {NAME: first}) == (True, Source.INFERRED, 5, False)
    assert found(others, {NAME: first}) == (True, Source.INFERRED, 3, False)


def test_the_phase_of_scans_that_a_day_has_shown_before_it_shows_anew() -> None:
    """As a setting, though two closes for another phase would not do against one that an earlier day has shown."""
    shown = {SCAN_PHASE: Setting(SCAN_PHASE, 7, Source.INFERRED, 100, 100, 7, ("a1",))}
    held_by_now = {SCAN_PHASE: shown[SCAN_PHASE]._replace(answers_for=2)}

    def found(answers: Votes, before: dict[str, Setting]) -> tuple[Value, int, bool]:
        version = settle(Known([FIRST]))[:1]
        held = {VERSION: version[0], **before}
        now = settle(Known([FIRST], votes=[answers], before=held, shown_before=shown))
        (one,) = (one for one in now if one.name == SCAN_PHASE)
        return one.value, one.answers_for, one in reconsidered(now, {**held, **shown})

    same, other = votes(7, 4, name=SCAN_PHASE), votes(9, 1, name=SCAN_PHASE)
    assert found(same, {}) == (7, 4, False)
    assert found(other, {}) == (9, 1, True)
    assert found(same, held_by_now) == (7, 4, False)
    assert found(other, held_by_now) == (7, 2, False)
