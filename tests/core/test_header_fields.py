"""What Java reads from the texts of a header and of a properties file."""

from __future__ import annotations

import pytest

from namesrv_core.asking.requests import java_boolean, java_int, java_long
from namesrv_core.inference.settings import properties_in


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (None, None),
        ("", None),
        ("-", None),
        ("+7", 7),
        ("-7", -7),
        ("--7", None),
        (" 7", None),
        ("1_0", None),
        ("007", 7),
        ("\u0663", 3),
        ("\U0001d7d1", None),
        ("9223372036854775807", 9223372036854775807),
        ("9223372036854775808", None),
        ("-9223372036854775808", -9223372036854775808),
        ("-9223372036854775809", None),
        ("9" * 5_000, None),
    ],
)
def test_a_long_is_what_java_reads_as_one(text: str | None, number: int | None) -> None:
    """A sign, then digits of any script in the basic plane, within 64 bits; no blanks, no underscores."""
    assert java_long(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [("2147483647", 2147483647), ("2147483648", None), ("-2147483648", -2147483648), ("-2147483649", None), ("", None)],
)
def test_an_int_has_32_bits(text: str, number: int | None) -> None:
    """What a long would take and an int does not is null."""
    assert java_int(text) == number


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TrUe", True), ("1", False), ("", False), (None, None)])
def test_a_boolean_is_true_in_any_case_and_else_false(text: str | None, value: bool | None) -> None:  # noqa: FBT001
    """Only a missing field is null."""
    assert java_boolean(text) is value


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", set()),
        ("a=1\nb:2\rc 3\r\nd", {"a", "b", "c", "d"}),
        ("  # a=1\n! b=2\n \t\n c=3", {"c"}),
        ("a\\=b=1\na\\ b=1\na\\:b", {"a=b", "a b", "a:b"}),
        ("a\\\n   b=1\nc", {"ab", "c"}),
        ("a=1\\\nb=2\nc=3", {"a", "c"}),
        ("a=1\\\\\nb=2", {"a", "b"}),
        ("a\\\n#b=1", {"a#b"}),
        ("kv\\u0043onfig=1\n\\t\\q=2", {"kvConfig", "\tq"}),
        ("=1", {""}),
        ("a=1\\", {"a"}),
        ("a=\\u12", None),
        ("a=\\\\u12", {"a"}),
    ],
)
def test_the_names_in_a_properties_text_are_those_that_java_reads(text: str, names: set[str] | None) -> None:
    """Comments, separators, continued lines and escapes; an unfinished unicode escape makes Java refuse the text."""
    said = properties_in(text)
    assert (None if said is None else said.keys()) == names


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1\nb : 2 \nc\t3\nd", {"a": "1", "b": "2 ", "c": "3", "d": ""}),
        ("a==1\nb= : 2", {"a": "=1", "b": ": 2"}),
        ("a=1\\\n   2\na\\=b=\\tx\\u0041", {"a": "12", "a=b": "\txA"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=ß", {"a": "\u00c3\u009f"}),
    ],
)
def test_their_values_are_those_that_java_reads(text: str, values: dict[str, str]) -> None:
    """One separator, with blanks around it; the last of two; bytes are taken for Latin-1, as the server does."""
    assert properties_in(text) == values
