"""Nights over captures as networks give them: what could not be read is a gap of what is known, and no mismatch."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas import bronze, gold
from tests.core.test_unseen import route
from tests.ingest.test_networks import written
from tests.night.nights import night, rows
from tests.wire.forge import BROKER, EPOCH_NS, SECOND_NS, Talk, merged, register_json, request, response
from tests.wire.openings import HELLO, SERVER_HELLO

pytestmark = pytest.mark.slow

A = BROKER | {"brokerName": "a", "brokerAddr": "a:1"}


@pytest.mark.parametrize("tls", ["a broker's", "a stranger's"])
def test_a_broker_that_registers_in_tls_is_a_gap(tmp_path: Path, tls: str) -> None:
    """Answers that show it agree in all else: they count as not known.

    A connection that ended before was no broker's, and explains nothing: with it the broker would have gone.
    """
    broker = Talk().refused().open().ask(request(103, A, register_json({"T": 1, "U": 1}), opaque=3)).answer(response(3))
    client = Talk(client="10.0.0.3:40000", start_ns=EPOCH_NS + 5 * SECOND_NS, client_seq=77).open()
    for opaque, body in enumerate((route("a"), route("ax"), route("x")), 4):
        client.ask(request(105, {"topic": "T"}, opaque=opaque)).answer(response(opaque, body=body.encode()))
    hidden = (
        Talk(client="10.0.0.4:40000", start_ns=EPOCH_NS + SECOND_NS, client_seq=99)
        .open()
        .ask(HELLO)
        .answer(SERVER_HELLO)
    )
    if tls == "a stranger's":
        hidden.server_fin()
    said = night(tmp_path / "w", written(tmp_path / "tls.pcap", merged(broker, client, hidden)))
    classes = sorted(row["classification"] for row in rows(tmp_path / "w", gold.ROUTE_MISMATCHES))
    explains = tls == "a broker's"
    assert classes == (["mismatched", "unseen_broker"] if explains else ["mismatched", "mismatched"])
    assert said.verify["mismatched"] == len(classes) - explains
    assert said.reasons == {"tls": 1}
    assert [row["reason"] for row in rows(tmp_path / "w", bronze.QUARANTINE)] == ["tls"]
