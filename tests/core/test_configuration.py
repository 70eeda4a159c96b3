"""A name server's whole configuration: what is kept of it, and how answers that show it compare with what is known."""

from __future__ import annotations

import pytest

from namesrv_core.inference.configuration import (
    NOTHING_KNOWN,
    Configuration,
    kept,
    lines_of,
    shown_text,
    statement_of,
    told_text,
)
from namesrv_core.inference.settings import CONFIGURATION, Known, Life, Setting, Statement
from namesrv_core.inference.settle import settle

WHOLE = "configStorePath=/home/x/namesrv/namesrv.properties\nkvConfigPath=/k\nlistenPort=9876\nsecretKey=geheim\n"
FILE = WHOLE.replace("/home/x/namesrv/namesrv.properties", "/etc/ns.conf")
FIRST, SECOND = Life(100, "5.4.0", "v1"), Life(900, "5.4.0", "v2")


def said(seq: int, text: str) -> Statement:
    """Return an answer to GET_NAMESRV_CONFIG."""
    return statement_of(seq, f"g{seq}", shown_text(text), changes=False)


def told(seq: int, text: str, *, is_certain: bool = True) -> Statement:
    """Return an UPDATE_NAMESRV_CONFIG that was accepted, or may have been."""
    return statement_of(seq, f"u{seq}", told_text(text), changes=True, is_certain=is_certain)


def rows(known: Known) -> list[tuple[int, str, dict[str, str]]]:
    """Return since when what was known, and how."""
    found = [s for s in settle(known) if s.name == CONFIGURATION]
    return [(s.from_seq, s.source.value, dict(Configuration.of(str(s.value)).lines)) for s in found]


def last(known: Known) -> dict[str, Setting]:
    """Return what the next day starts with."""
    return {setting.name: setting for setting in settle(known)}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("listenPort", "+007", "7"),
        ("listenPort", "2147483648", None),
        ("scanNotActiveBrokerInterval", "2147483648", "2147483648"),
        ("orderMessageEnable", "TRUE", "true"),
        ("orderMessageEnable", "true ", "false"),
        ("configStorePath", "C:\\u\\ns.conf", "C:/u/ns.conf"),
        ("rocketmqHome", "/opt/mq", None),
        ("operatorsOwn", "9876", None),
        ("operatorsOwn", "true", None),
        ("operatorsOwn", "#0badcafe", None),
    ],
)
def test_only_rocketmqs_own_numbers_and_switches_are_kept(name: str, value: str, expected: str | None) -> None:
    """As the server reads them; of all others a digest of eight digits, in which blanks at the ends and the name count."""
    found = kept(name, value)
    if expected is not None:
        assert found == expected
        return
    assert found[0] == "#"
    assert len(found) == 9
    assert value not in found
    assert found == kept(name, f" {value} ")
    assert found != kept(name, f"{value}x")
    assert found != kept(f"{name}2", value)


def test_what_is_kept_is_kept_as_it_is_when_it_is_read_again() -> None:
    """From an event log that an export wrote; a name that is none, and a text that Java refuses, too."""
    answer = shown_text(WHOLE + "a=b\ngoes on\n=x\n")
    change = told_text("a = geheim\nge\\u0068eim\\ name=1\nlistenPort=x\n")
    assert "geheim" not in answer + change
    assert "eim" not in change
    assert shown_text(answer, again=True) == answer
    assert told_text(change, again=True) == change
    assert told_text(told_text("a=\\u12"), again=True) == told_text("a=\\u12")
    assert lines_of(told_text("a=\\u12"), changes=True) == {}
    assert Configuration.of(Configuration(lines_of(answer, changes=False)).text).lines == lines_of(
        answer, changes=False
    )
    assert Configuration.of(NOTHING_KNOWN.text) == NOTHING_KNOWN


def test_a_value_of_several_lines_is_one() -> None:
    """The server writes it as it is; what follows belongs to it."""
    assert [*lines_of(shown_text("a=1\ntwo\nb=1\n"), changes=False)] == ["a", "b"]
    assert shown_text("a=1\ntwo\n") != shown_text("a=1\nthree\n")
    assert lines_of(told_text("a=1\\ntwo"), changes=True) == lines_of(shown_text("a=1\ntwo\n"), changes=False)


def test_a_change_concerns_what_is_there() -> None:
    """Properties that the server has not are passed over, and what is no number; the order stays."""
    known = Configuration(lines_of(shown_text(WHOLE), changes=False))
    after = known.after_change(lines_of(told_text("other=1\nlistenPort=x\nkvConfigPath=/y\n"), changes=True))
    assert after.lines == {**known.lines, "kvConfigPath": kept("kvConfigPath", "/y")}
    assert [*after.lines] == [*known.lines]
    assert known.after_change(lines_of(told_text("listenPort=1\n"), changes=True)).lines["listenPort"] == "1"


@pytest.mark.parametrize(
    ("known", "answered", "expected"),
    [
        ("a=1\nb=2", "a=1\nb=2", "equal"),
        ("a=1\nb=2", "b=2\na=1", "reordered"),
        ("a=1\nb=2", "a=1", "other"),
        ("a=1\nb=2", "a=1\nb=2\nc=3", "other"),
        ("a=1\nb=2", "a=1\nb=3", "other"),
        ("a=1\nb=?", "a=1\nb=3", "open"),
        ("a=1\nb=?", "a=2\nb=3", "other"),
        ("a=1\nb=?", "a=1", "other"),
        ("?\na=1", "a=1\nb=3", "open"),
        ("?\na=1", "b=3", "open"),
        ("?\na=1", "a=2\nb=3", "other"),
        ("?", "a=2", "open"),
    ],
)
def test_an_answer_is_held_against_what_is_known(known: str, answered: str, expected: str) -> None:
    """What is not known can be anything; a property that a change named need not be there."""
    lines = dict(line.split("=") for line in answered.split("\n"))
    assert Configuration.of(known).compared(lines) == expected


def test_the_first_answer_teaches_and_holds_from_itself_on() -> None:
    """Nothing is said of the time before: no earlier day is replayed because of it. An equal one says nothing new."""
    lines = lines_of(shown_text(WHOLE), changes=False)
    known = Known([FIRST], [said(200, WHOLE), said(300, WHOLE)])
    assert rows(known) == [(200, "stated", lines)]
    assert rows(Known([Life(100)], [said(400, WHOLE)], before=last(known))) == [(200, "stated", lines)]
    assert rows(Known([FIRST])) == []


def test_an_accepted_change_of_any_property_is_a_row() -> None:
    """Of a property that no replay looks at, too; before the first answer it is all that is known."""
    lines, set_ = lines_of(shown_text(WHOLE), changes=False), lines_of(told_text("secretKey=x"), changes=True)
    assert rows(Known([FIRST], [said(200, WHOLE), told(300, "secretKey=x"), told(400, "other=x")])) == [
        (200, "stated", lines),
        (300, "changed", {**lines, **set_}),
    ]
    assert rows(Known([FIRST], [told(300, "secretKey=x")])) == [(300, "changed", set_)]


def test_an_answer_that_nothing_explains_is_what_is_known_from_then_on() -> None:
    """It is told once, as a mismatch, and not again with each answer that follows."""
    other = WHOLE.replace("geheim", "anders")
    found = rows(Known([FIRST], [said(200, WHOLE), said(300, other), said(400, other)]))
    assert [(seq, source) for seq, source, _ in found] == [(200, "stated"), (300, "stated")]


def test_a_change_that_nobody_saw_accepted_makes_its_properties_doubtful() -> None:
    """Others stay known; one that would set what is there changes nothing. The next answer tells."""
    known = [said(200, WHOLE), told(300, "secretKey=geheim\nlistenPort=1", is_certain=False), said(400, WHOLE)]
    lines = lines_of(shown_text(WHOLE), changes=False)
    assert rows(Known([FIRST], known)) == [
        (200, "stated", lines),
        (300, "changed", {**lines, "listenPort": "?"}),
        (400, "stated", lines),
    ]


def test_behind_a_gap_what_was_known_is_a_guess() -> None:
    """A change may lie in it; a recorded one of a guess is one; an answer makes it known again."""
    gap = Statement(250, "gap", {}, changes=False, is_certain=False)
    found = rows(Known([FIRST], [gap, said(200, WHOLE), gap, told(300, "listenPort=1"), said(400, WHOLE)]))
    assert [(seq, source) for seq, source, _ in found] == [
        (200, "stated"),
        (250, "inherited"),
        (300, "inherited"),
        (400, "stated"),
    ]


@pytest.mark.parametrize(("text", "port"), [(FILE, "1"), (WHOLE, "9876")])
def test_a_change_outlives_the_process_only_in_its_file(text: str, port: str) -> None:
    """Without one the next process has what the last had started with; in both cases it is a guess."""
    found = rows(Known([FIRST, SECOND], [said(200, text), told(300, "listenPort=1")]))
    assert [(seq, source, lines["listenPort"]) for seq, source, lines in found] == [
        (200, "stated", "9876"),
        (300, "changed", "1"),
        (900, "inherited", port),
    ]
    before = last(Known([FIRST], [said(200, text), told(300, "listenPort=1")]))
    over_midnight = rows(Known([Life(100), SECOND], before=before))
    assert [(seq, source, lines["listenPort"]) for seq, source, lines in over_midnight][1:] == [
        (900, "inherited", port)
    ]


def test_what_a_change_hid_before_the_first_answer_is_not_known_of_the_next_process() -> None:
    """Without a file: the answer shows the change, and nothing what was there at the start."""
    found = rows(Known([FIRST, SECOND], [told(150, "listenPort=1"), said(200, WHOLE.replace("9876", "1"))]))
    assert [(seq, source, lines["listenPort"]) for seq, source, lines in found] == [
        (150, "changed", "1"),
        (200, "stated", "1"),
        (900, "inherited", "?"),
    ]


def test_of_another_release_nothing_is_inherited() -> None:
    """It has other properties."""
    found = rows(Known([FIRST, Life(900, "4.9.7", "v2")], [said(200, WHOLE)]))
    assert found[1:] == [(900, "inherited", {})]
