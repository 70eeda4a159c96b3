"""Names that are none for their length: a frame that has one is set aside, whatever asks, and the others are read."""

from __future__ import annotations

import pytest

from tests.wire.forge import BROKER, REGISTER, Talk, of_table, register_json, request, response, rows_of

LONG = "x" * 1_025


@pytest.mark.parametrize(
    "payload",
    [
        request(103, {**BROKER, "brokerName": LONG}, register_json({"T": 4}), opaque=2),
        request(103, BROKER, register_json({LONG: 4}), opaque=2),
        request(904, {**BROKER, "clusterName": LONG}, opaque=2),
        request(100, {"namespace": LONG, "key": "k", "value": "v"}, opaque=2),
        request(217, {"topic": LONG}, b'{"queueDatas":[]}', opaque=2),
        request(105, {"topic": LONG}, opaque=2),
    ],
)
def test_a_frame_with_such_a_name_costs_itself(payload: bytes) -> None:
    """It is in quarantine with its reason; what its connection says before and behind it is stored."""
    talk = Talk().open().ask(REGISTER).answer(response(3)).ask(payload).answer(response(2))
    rows = rows_of(talk.ask(REGISTER).answer(response(3)).segments)
    assert len(of_table(rows, "registrations")) == 2
    assert [row["reason"] for row in of_table(rows, "quarantine")] == ["name_too_long"]


def test_a_long_value_is_no_name() -> None:
    """What a KV entry holds, or a remark says, may be long."""
    talk = Talk().open().ask(REGISTER).answer(response(3)).exchange(100, {"namespace": "n", "key": "k", "value": LONG})
    rows = rows_of(talk.segments)
    assert (len(of_table(rows, "admin_events")), of_table(rows, "quarantine")) == (1, [])
