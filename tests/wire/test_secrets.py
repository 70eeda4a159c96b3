"""Blotting out credentials in raw bytes."""

from __future__ import annotations

import time

import pytest

from namesrv_wire.secrets import SECRET_KEYS, blot
from tests.wire.forge import binary_header, frame, request

SECRET = b"s3cr3t-value"


@pytest.mark.parametrize("cut", range(13))
@pytest.mark.parametrize("key", ["AccessKey", *sorted(map(str.upper, SECRET_KEYS))])
def test_json_secrets_are_blotted_also_when_cut_off(key: str, cut: int) -> None:
    """Wherever a kept piece ends inside the value, nothing of the value remains, and the length stays."""
    whole = request(105, {"topic": "T", key: SECRET.decode(), "z": "1"})
    end = whole.index(SECRET) + cut
    hidden = blot(whole[:end])
    assert len(hidden) == end
    assert cut == 0 or SECRET[:cut] not in hidden[end - cut :]
    assert blot(whole).startswith(hidden)


@pytest.mark.parametrize("cut", [0, 1, 6, 12])
def test_binary_secrets_are_blotted_also_when_cut_off(cut: int) -> None:
    """The same for the binary header."""
    whole = frame(binary_header(105, [(b"AccessKey", SECRET), (b"topic", b"T")]), b"", 1)
    end = whole.index(SECRET) + cut
    hidden = blot(whole[:end])
    assert len(hidden) == end
    assert b"x" * cut == hidden[end - cut :]
    assert SECRET not in blot(whole)
    assert b"topic" in blot(whole)


def test_escaped_keys_and_numbers_are_found() -> None:
    """A key written with escapes is the same key, and a number can be a secret too."""
    assert SECRET not in blot(b'{"\\u0041ccessKey" : "' + SECRET + b'"}')
    assert b"12345" not in blot(b'{"Signature":12345,"a":1}')
    assert blot(b'{"Signature":12345,"a":1}').endswith(b',"a":1}')


def test_a_cut_behind_an_escape_keeps_the_escape() -> None:
    """The rest of the value must still belong to the value when the next piece arrives."""
    assert blot(b'{"AccessKey":"abc\\') == b'{"AccessKey":"xxx\\'
    assert blot(b'{"AccessKey":"abc\\u00') == b'{"AccessKey":"xxx\\u00'
    assert blot(b'{"AccessKey":"a\\\\') == b'{"AccessKey":"xxx'


def test_nothing_else_is_touched() -> None:
    """Bytes without secrets stay as they are."""
    whole = request(103, {"brokerName": "AccessKey", "topic": "Signature"}, b"body")
    assert blot(whole) == whole


@pytest.mark.parametrize("cut", [0, 1, 6, 12])
def test_properties_named_like_secrets_are_blotted_also_when_cut_off(cut: int) -> None:
    """In the body of a request that changes the configuration; others stay, and so does the length."""
    body = b"listenPort=9876\nacl.SecretKey = " + SECRET + b"\nkeyStorePassword:" + SECRET + b"\nrocketmqHome=/opt\n"
    whole = request(318, {}, body)
    assert blot(whole) == whole.replace(SECRET, b"x" * len(SECRET))
    end = whole.index(SECRET) + cut
    assert blot(whole[:end]) == whole[: end - cut] + b"x" * cut


@pytest.mark.parametrize(
    "again", [b"token", b"a", b'\\"', b" ", b"token=", b'"token":', b"\0\x08password\x7f\xff\xff\xff"], ids=repr
)
def test_a_secret_that_never_ends_takes_no_longer(again: bytes) -> None:
    """Anybody can send a frame: half a megabyte of one, each part of which begins what never ends, is blotted at once."""
    began = time.process_time()
    for begins in (b"secret", b'"password":"', b"password = ", b'secret"'):
        hostile = begins + again * (500_000 // len(again))
        assert len(blot(hostile)) == len(hostile)
    assert time.process_time() - began < 10


def test_a_property_whose_name_has_a_secret_anywhere_is_blotted() -> None:
    """At its beginning, in its midst or at its end; what follows on another line is another property."""
    told = b"a=1 my.token.x = " + SECRET + b" b=2\n\ttokens:" + SECRET + b"\nnotok=" + SECRET
    hidden = (
        b"a=1 my.token.x = " + b"x" * (len(SECRET) + 4) + b"\n\ttokens:" + b"x" * len(SECRET) + b"\nnotok=" + SECRET
    )
    assert blot(told) == hidden
