"""The request layer of `record --listen`, request by request; very many beside the real one: `tests/oracle/test_dispatch.py`."""

from __future__ import annotations

import json
import zlib

import pytest

from namesrv_core.asking.answers import CRC32_MISMATCH, MISSING_BROKER_ID, UNDECODABLE_BODY
from tests.record.driven import Driven
from tests.wire.forge import BROKER, register_json, request

FITTING, WRONG = {"bodyCrc32": str(zlib.crc32(register_json({"T": 4})) & 0x7FFFFFFF)}, {"bodyCrc32": "98"}


@pytest.mark.parametrize(
    ("release", "fields", "body", "version", "refusal", "told"),
    [
        ("5.4.0", WRONG, b"no", 407, CRC32_MISMATCH, "crc32 not match"),
        ("4.9.7", WRONG, None, 407, CRC32_MISMATCH, "crc32 not match"),
        ("5.4.0", {}, b"no", 407, UNDECODABLE_BODY, ""),
        ("4.9.7", {}, b"", 407, None, None),
        ("4.9.7", {"brokerId": "first"}, None, 407, MISSING_BROKER_ID, "java.lang.NullPointerException"),
        ("4.9.7", WRONG, None, -1, UNDECODABLE_BODY, ""),
        ("5.4.0", WRONG, None, -1, CRC32_MISMATCH, "crc32 not match"),
        ("4.9.7", {"bodyCrc32": "none"}, None, 407, None, None),
        ("5.4.0", FITTING, None, 407, None, "register broker failed"),
    ],
)
def test_a_registration_is_refused_for_the_first_of_its_faults(
    release: str, fields: dict[str, str], body: bytes | None, version: int, refusal: str | None, told: str | None
) -> None:
    """Checksum first, then the body, then the broker id; 4.9.7 looks at a negative version before all of them."""
    served = Driven(release)
    data = request(103, {**BROKER, **fields}, register_json({"T": 4}) if body is None else body, version=version)
    answered = served.ask(data, 0, "c")
    assert answered is not None
    assert (answered.code, answered.remark) == (int(told is not None), told)
    assert json.loads(served.lines[-1]).get("refusal") == refusal
    assert len(served.registry.broker_live_table) == (told is None)


@pytest.mark.parametrize(
    ("version", "fields", "key"),
    [(400, {}, b"{0:"), (401, {}, b'{"0":'), (0, {"acceptStandardJsonOnly": "true"}, b'{"0":')],
)
def test_the_asker_decides_the_dialect_of_a_route(version: int, fields: dict[str, str], key: bytes) -> None:
    """Standard JSON from version 4.9.4 on, or if asked for; integer keys show which it is."""
    served = Driven("4.9.7")
    served.ask(request(103, BROKER, register_json({"T": 4, "U": 4})), 0, "c")
    answered = served.ask(request(105, {"topic": "T", **fields}, version=version), 1, "d")
    assert answered is not None
    assert b'"brokerAddrs":' + key in answered.body


def test_what_a_release_does_not_know_4_does_not_answer() -> None:
    """Permissions are given back since 4.9.2; 5.x says that it does not know a code."""
    answers = [Driven(release).ask(request(327, {"brokerName": "b"}), 0) for release in ("4.9.1", "4.9.2")]
    assert [answered and answered.ext for answered in answers] == [None, {"addTopicCount": "0"}]
    unknown = Driven("5.4.0").ask(request(999), 0)
    assert unknown is not None
    assert (unknown.code, unknown.remark) == (3, " request type 999 not supported")
