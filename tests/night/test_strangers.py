"""Whoever reaches the port of a name server writes no history: nothing changes but what is told of his own connections."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from schemas import bronze
from tests.compare_gold import compare, tables_of
from tests.night.nights import JOINED, Capture, night
from tests.pcap import stretch
from tests.places import CAPTURE, recorded
from tests.wire.strangers import ADDRESS, NO_SUCH_TOPIC, strangers, with_strangers

pytestmark = pytest.mark.slow

COUNTED = ("answer_checks", "runs")
"""Tables of counters."""
COUNTERS = ("past_knowledge.number",)
NETWORK = "network/short.pcap.gz"
SERVERS = [("10.77.1.2:9876", 493), ("10.77.1.2:9877", 407)]
AT_S = (7.3, 61.9)
"""When strangers come: while both name servers of the capture run."""
UNTIL_S = 140
"""How much of it is read: at least what shows the end of a connection that is silent for 120 s."""


def told_of_others(warehouse: Path) -> dict[str, pa.Table]:
    """Return the gold tables without the rows of events on strangers' connections."""
    events = tables_of(warehouse, layers=("bronze",))
    strange = set()
    for table in bronze.RECORDED_TABLES:
        rows = events[table.name]
        if "event_id" not in rows.column_names:
            continue  # of beats, which follow from their rows, and of which strangers send none
        own = rows.filter(pc.starts_with(pc.fill_null(rows["channel_id"], ""), f"{ADDRESS}:"))
        strange |= set(own["event_id"].to_pylist())
    assert strange
    found = {}
    for name, rows in tables_of(warehouse).items():
        is_strange = (
            pc.is_in(rows["event_id"], pa.array(strange, pa.string())) if "event_id" in rows.column_names else None
        )
        found[name] = rows if is_strange is None else rows.filter(pc.invert(is_strange))
    known = found["past_knowledge"]
    found["past_knowledge"] = known.filter(pc.not_equal(pc.fill_null(known["one"], ""), NO_SUCH_TOPIC))
    return found


def test_strangers_change_nothing_in_the_bundled_capture(whole: Capture, tmp_path: Path) -> None:
    """HTTP, zeros, half frames, silence, TLS and questions, four times in its course: every table is what it was."""
    capture = tmp_path / "hostile.pcap"
    with_strangers(CAPTURE, capture, [("127.0.0.1:9876", 407)], [30.3, 200.7, 400, 600.1])
    said = night(tmp_path / "w", capture, conf=JOINED)
    assert (said.verify["mismatched"], said.verify["explained"], said.errors) == (0, {}, [])
    assert said.verify["answers"] == said.verify["matched"] > whole.summary.verify["answers"]
    found = compare(tables_of(whole.path), told_of_others(tmp_path / "w"), without=COUNTED, ignore=COUNTERS)
    assert [str(one) for one in found if not one.is_equal] == []


def test_strangers_change_nothing_in_a_network(tmp_path: Path) -> None:
    """Likewise where a 5.x and a 4.x name server freeze, and brokers are expired by the scan."""
    source, whole = tmp_path / "clean.pcap.gz", gzip.decompress(recorded(NETWORK).read_bytes())
    source.write_bytes(gzip.compress(stretch(whole, 0, UNTIL_S), 1))
    # Who asks a question that is short enough to be recorded whole shows what nobody else does: the server's version.
    kinds = [kind for kind in strangers(493) if "question" not in kind and kind != "proxy"]
    with_strangers(source, tmp_path / "hostile.pcap", SERVERS, AT_S, kinds)
    night(tmp_path / "clean", source, conf=JOINED)
    night(tmp_path / "w", tmp_path / "hostile.pcap", conf=JOINED)
    found = compare(tables_of(tmp_path / "clean"), told_of_others(tmp_path / "w"), without=COUNTED, ignore=COUNTERS)
    assert [str(one) for one in found if not one.is_equal] == []
