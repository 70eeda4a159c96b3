"""A name server's whole configuration: what is kept of it."""

from __future__ import annotations

import pytest

from namesrv_core.inference.settings import change_text, kept, lines_of, shown_text

WHOLE = "configStorePath=/home/x/namesrv/namesrv.properties\nkvConfigPath=/k\nlistenPort=9876\nsecretKey=geheim\n"


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
    change = change_text("a = geheim\nge\\u0068eim\\ name=1\nlistenPort=x\n")
    assert "geheim" not in answer + change
    assert "eim" not in change
    assert shown_text(answer, again=True) == answer
    assert change_text(change, again=True) == change
    assert change_text(change_text("a=\\u12"), again=True) == change_text("a=\\u12")
    assert lines_of(change_text("a=\\u12"), changes=True) == {}


def test_a_value_of_several_lines_is_one() -> None:
    """The server writes it as it is; what follows belongs to it."""
    assert [*lines_of(shown_text("a=1\ntwo\nb=1\n"), changes=False)] == ["a", "b"]
    assert shown_text("a=1\ntwo\n") != shown_text("a=1\nthree\n")
    assert lines_of(change_text("a=1\\ntwo"), changes=True) == lines_of(shown_text("a=1\ntwo\n"), changes=False)
