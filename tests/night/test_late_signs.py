"""A name server that stood still while a broker was cut off: which limit removed the broker, when, and after which silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from namesrv_core import V4_9_7, Namesrv, Question, Registry, answer
from namesrv_wire.packets.capture import ACK
from schemas import bronze, gold
from tests.night.nights import night, rows
from tests.wire.forge import EPOCH_NS, MS_NS, REGISTER, SECOND_NS, Talk, merged, request, response
from tests.wire.seeds import pcap_of

pytestmark = pytest.mark.slow

LAST_MS, LIMIT_MS, SEEN_MS = 3, 120_003, 173_006
"""The broker's last byte, where its silence reaches the limit, and the FIN that is sent again, in ms from the beginning."""


def asking(stands_still: range) -> Talk:
    """Return a client that asks each second; while the process stands still its machine acknowledges, and nobody answers."""
    talk, waiting = Talk(client="10.0.0.8:40000", start_ns=EPOCH_NS + 5 * MS_NS).open(), list[int]()
    told = answer(Registry(V4_9_7), Question(105, "none"), Namesrv())
    for second in range(1, 200):
        talk.at_ns = EPOCH_NS + second * SECOND_NS + 11 * MS_NS
        talk.ask(request(105, {"topic": "none"}, opaque=second))
        waiting.append(second)
        if second in stands_still[:-1]:
            talk._add(True, ACK)
        else:
            while waiting:
                talk.answer(response(waiting.pop(0), told.code, remark=told.remark))
    return talk


def cut_off(beats: range) -> Talk:
    """Return a broker that registers; what it sends then reaches nobody; the name server's FIN is seen when it is sent again."""
    talk = Talk().open().ask(REGISTER).answer(response(3))
    at_seq = talk.client_seq
    for second in beats:
        talk.at_ns = EPOCH_NS + second * SECOND_NS
        talk.ask(REGISTER)
    sent_seq, talk.client_seq = talk.client_seq, at_seq
    talk.at_ns = EPOCH_NS + SEEN_MS * MS_NS
    talk.server_fin()
    talk.client_seq = sent_seq
    return talk


@pytest.mark.parametrize(
    ("stands_still", "beats"),
    [(range(300, 301), range(30, 170, 30)), (range(20, 60), range(0))],
    ids=["runs on, beats are seen", "stood still, nothing is seen"],
)
def test_who_was_cut_off_is_closed_at_the_idle_limit(stands_still: range, beats: range, tmp_path: Path) -> None:
    """Not by the scan that follows 4.5 s later, nor when the FIN is seen: that is a late sign of what had happened."""
    capture, _ = pcap_of(merged(cut_off(beats), asking(stands_still)))
    (tmp_path / "a.pcap").write_bytes(capture)
    said = night(tmp_path / "w", tmp_path / "a.pcap")
    assert (said.status, said.verify["mismatched"]) == ("published", 0)
    (gone,) = rows(tmp_path / "w", gold.EXPIRED_BROKERS)
    begin_ms = EPOCH_NS // MS_NS
    found = (gone["cause"], *(gone[name] // 1_000 - begin_ms for name in ("last_beat_time", "removed_time")))
    assert found == ("idle_channel", LAST_MS, LIMIT_MS)
    ends = [
        (row["kind"], row["closed_by"], row["effect_time"] // 1_000 - begin_ms, row["silent_ms"])
        for row in rows(tmp_path / "w", bronze.CHANNEL_EVENTS)
        if row["channel_id"].startswith("10.0.0.2:")
    ]
    assert sorted(ends) == [
        ("close", "timer", LIMIT_MS, 120_000),
        ("idle", "timer", LIMIT_MS, 120_000),
        ("late_close", "namesrv", SEEN_MS, SEEN_MS - LAST_MS),
    ]
