"""Mutations of frames and bodies: damage as networks make it, and JSON as tolerant readers take it."""

from __future__ import annotations

import random
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Final

from tests.wire.forge import frame

ODD_BYTES: Final = b"\x00\x01\x1a \"',\\[]{}\x7f\x80\xc0\xed\xff"
ODD_NUMBERS: Final = (-(2**31), -1, 0, 1, 3, 20, 21, 22, 127, 128, 255, 1_025, 32_767, 65_536, 2**24, 2**31 - 1)
ODD_TEXTS: Final = (
    b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\\ud800", b"\\u00e4", b"\\x41",
    b"\\v", b"\\'", b"\x00", b"\x1a", b"\n", b"a b", "\u0663".encode(), b"\\", b"/**/",
)  # fmt: skip
ODD_VALUES: Final = (
    b"null", b"true", b"false", b"NaN", b"Infinity", b"-Infinity", b"undefined", b"0", b"-0", b"007", b"+5", b"1.0",
    b"1.5", b"-2.75", b".5", b"5.", b"1e2", b"1E400", b"1L", b"0x10", b"2147483647", b"2147483648", b"-2147483648",
    b"9223372036854775807", b"9223372036854775808", b"123456789012345678901234567890", b'""', b'"x"', b'"5"', b'"-7"',
    b'"+7"', b'"1,000"', b'" 5"', b'"5.0"', b'"1e2"', b'"null"', b'"true"', b'"JAVA"', b'"java"', b"'single'", b"{}",
    b"[]", b"[1]", b'["a"]', b"[null]", b'{"a":1}', b'{"a":{"b":[1,2,{}]}}', b"{1:2}", b'{"$ref":"$"}',
    b'{"@type":"java.lang.String"}', b"new Date(0)", b"Set[]", b"x'4142'",
)  # fmt: skip
_VALUE = re.compile(rb'"(?:[^"\\]|\\.)*"(?!\s*:)|-?\d+(?:\.\d+)?(?!\s*:)|true|false|null')
_KEY = re.compile(rb'"((?:[^"\\]|\\.)*)"(\s*:)')
_PLACE = re.compile(rb"[{}\[\],:]")


def damaged(chance: random.Random, data: bytes) -> bytes:
    """Return bytes after one to four small accidents."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.randrange(len(out) + 1)
        size = chance.choice((1, 1, 2, 4, 9))
        kind = chance.randrange(6)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and at < len(out):
            out[at] = chance.choice(ODD_BYTES)
        elif kind == 2:
            del out[at : at + size]
        elif kind == 3:
            out[at:at] = out[at : at + size]
        elif kind == 4:
            out[at:at] = chance.choice(ODD_TEXTS)
        else:
            source = chance.randrange(len(out) + 1)
            out[at : at + size] = out[source : source + size]
    return bytes(out)


def odd_json(chance: random.Random, text: bytes) -> bytes:
    """Return JSON with one or two things that strict readers refuse, or that have an unexpected type."""
    for _ in range(chance.choice((1, 1, 1, 2))):
        text = chance.choice(_JSON_MUTATIONS)(chance, text)
    return text


def _picked(chance: random.Random, pattern: re.Pattern[bytes], text: bytes) -> re.Match[bytes] | None:
    """Return a match behind a random place, which may well be inside a string."""
    return pattern.search(text, chance.randrange(len(text) + 1)) or pattern.search(text)


def _other_value(chance: random.Random, text: bytes) -> bytes:
    found = _picked(chance, _VALUE, text)
    return text if found is None else text[: found.start()] + chance.choice(ODD_VALUES) + text[found.end() :]


def _quoted_value(chance: random.Random, text: bytes) -> bytes:
    found = _picked(chance, _VALUE, text)
    if found is None:
        return text
    value = found[0]
    value = value.strip(b'"') if value.startswith(b'"') else b'"' + value + b'"'
    return text[: found.start()] + value + text[found.end() :]


def _other_key(chance: random.Random, text: bytes) -> bytes:
    found = _picked(chance, _KEY, text)
    if found is None:
        return text
    key = found[1]
    forms = (
        key, b"'" + key + b"'", b'"' + key.upper() + b'"', b'"' + key.capitalize() + b'"', b'"is' + key + b'"',
        b'"' + key + b'_"', b'"x' + key + b'"', b'"\\u0063' + key[1:] + b'"', b'""', b"null", b"5", b'"@type"',
    )  # fmt: skip
    return text[: found.start()] + chance.choice(forms) + found[2] + text[found.end() :]


def _copied_member(chance: random.Random, text: bytes) -> bytes:
    """Repeat a key with another value, before or behind."""
    found = _picked(chance, _KEY, text)
    if found is None:
        return text
    value = _VALUE.match(text, found.end())
    if value is None:
        return text
    copy = found[0] + chance.choice((value[0], chance.choice(ODD_VALUES)))
    return text[: found.start()] + copy + b"," + text[found.start() :]


def _other_text(chance: random.Random, text: bytes) -> bytes:
    """Put odd bytes into a string."""
    found = _picked(chance, re.compile(rb'"(?:[^"\\]|\\.)*"'), text)
    if found is None:
        return text
    at = chance.randint(found.start() + 1, found.end() - 1)
    return text[:at] + chance.choice(ODD_TEXTS) + text[at:]


def _at_a_place(chance: random.Random, text: bytes) -> bytes:
    """Put something between tokens: comments, commas, blanks, junk."""
    found = _picked(chance, _PLACE, text)
    at = len(text) if found is None or chance.randrange(8) == 0 else found.start() + chance.randrange(2)
    odd = (
        b"/*c*/",
        b"//c\n",
        b",",
        b" ",
        b"\t\n",
        b"\x0c",
        b"\x00",
        b"\xc2\xa0",
        b"\xef\xbb\xbf",
        b";",
        b":",
        b"x",
        b"}",
    )
    return text[:at] + chance.choice(odd) + text[at:]


def _dropped_token(chance: random.Random, text: bytes) -> bytes:
    found = _picked(chance, _PLACE, text)
    return text if found is None else text[: found.start()] + text[found.end() :]


def _cut(chance: random.Random, text: bytes) -> bytes:
    return text[: chance.randrange(len(text) + 1)]


_JSON_MUTATIONS: Final[Sequence[Callable[[random.Random, bytes], bytes]]] = (
    *(_other_value, _other_value, _other_value, _quoted_value, _other_key, _other_key, _copied_member),
    *(_other_text, _at_a_place, _dropped_token, _cut),
)


def mutated_frame(chance: random.Random, data: bytes, other: bytes) -> bytes:
    """Return a frame made from `data`; its length field is right. `other` is a frame to splice in."""
    word = int.from_bytes(data[4:8], "big")
    kind, end = word >> 24, 8 + (word & 0xFFFFFF)
    header, body = data[8:end], data[end:]
    choice = chance.randrange(10)
    if choice < 5:
        header = odd_json(chance, header) if kind == 0 else _odd_binary(chance, header)
    elif choice < 7:
        header = damaged(chance, header)
    elif choice == 7:
        header = header[: chance.randrange(len(header) + 1)] + other[8 + chance.randrange(len(other) - 7) :][:200]
    elif choice == 8:
        kind = chance.choice((0, 1, 1, 2, 255, kind ^ 1))
    whole = bytearray(frame(header, body, kind))
    if choice == 9:
        length = chance.choice((0, 1, 20, 21, len(header) - 1, len(header) + 1, len(header) + len(body), 2**24 - 1))
        struct.pack_into(">I", whole, 4, kind << 24 | max(length, 0) & 0xFFFFFF)
    return bytes(whole)


def _odd_binary(chance: random.Random, header: bytes) -> bytes:
    """Return a binary header with a wrong length, or a length field that moved."""
    out = bytearray(header)
    if len(out) < 21:
        return damaged(chance, header)
    at = chance.choice((13, 17, chance.randrange(len(out) - 3)))
    if chance.randrange(2):
        struct.pack_into(">i", out, at, chance.choice(ODD_NUMBERS))
    else:
        (old,) = struct.unpack_from(">i", out, at)
        struct.pack_into(">I", out, at, (old + chance.choice((-4, -1, 1, 2, 8))) & 0xFFFFFFFF)
    return bytes(out)


def mutated_body(chance: random.Random, body: bytes, *, compressed: bool) -> bytes:
    """Return a registration body made from `body`; a compressed one is damaged before or after compression."""
    if not compressed:
        return odd_json(chance, body) if chance.randrange(4) else damaged(chance, body)
    if chance.randrange(4) == 0:
        return damaged(chance, body)
    plain = zlib.decompress(body)
    start = chance.randrange(len(plain))
    piece = plain[start : start + 60]
    choice = chance.randrange(4)
    if choice == 0:
        plain = plain[:start] + _same_size(odd_json(chance, piece), len(piece)) + plain[start + len(piece) :]
    elif choice == 1 and len(plain) > 8:
        at = chance.randrange(len(plain) - 4)
        plain = plain[:at] + struct.pack(">i", chance.choice(ODD_NUMBERS)) + plain[at + 4 :]
    elif choice == 2:
        plain = plain.replace(*chance.choice(_TOPIC_CHANGES))
    else:
        plain = damaged(chance, plain)
    return zlib.compress(plain, chance.choice((1, 9)))


def _same_size(text: bytes, size: int) -> bytes:
    """Return a text of the old size, so that the length in front of it stays right."""
    return text[:size].ljust(size)


_TOPIC_CHANGES: Final = (
    (b" 4 ", b" x "), (b" 4 ", b" +4"), (b" 4 ", b"  4"), (b" 6 ", b" - "), (b"SINGLE_TAG", b"MULTI_TAG "),
    (b"SINGLE_TAG", b"SINGLE TAG"), (b"T 4", b" 44"), (b" 4 ", b" \xd9\xa3"), (b"T 4", b"\xff 4"),
    (b"SINGLE_TAG", b"          "), (b" 16 ", b" -1 "), (b'["', b"['"), (b"]", b"}"),
)  # fmt: skip
