"""A night over what a recorder sends: the gold tables are those of the plain capture."""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest

from namesrv_day.audit.content import compare
from tests.compare_gold import tables_of
from tests.night.nights import CAPTURE, CHECKOUT, Capture, night
from tests.night.test_captures import FILES, JOINED, file_of
from tests.pcap import Record, capture, records
from tests.wire.wrapped import COMPRESSIONS, COOKED, WRAPPINGS

pytestmark = pytest.mark.slow
_IP = (b"\x08\x00", b"\x86\xdd")


def told(warehouse: Path) -> dict[str, pa.Table]:
    """Return the gold tables of a warehouse, but for what its runs say of files."""
    return {name: rows for name, rows in tables_of(warehouse, layers=("gold",)).items() if name != "runs"}


ENCAPSULATIONS = ("VXLAN", "Geneve", "GRE", "ERSPAN III", "IP in IP", "MPLS", "PPPoE", "cooked v2, VLAN")
PACKETS = 2_000


@pytest.mark.parametrize("number", range(5))
def test_however_a_capture_comes_the_tables_are_the_same(number: int, tmp_path: Path) -> None:
    """Pieces of five real captures, each in eight encapsulations: with the five compressions all forty pairs of them."""
    path = CAPTURE if number == 0 else file_of([*FILES][number - 1])
    data = gzip.decompress(path.read_bytes())
    packets = list(islice(records(data), PACKETS))
    (tmp_path / "plain.pcap").write_bytes(capture(data, packets))
    assert night(tmp_path / "plain", tmp_path / "plain.pcap", conf=JOINED).observations > 100
    expected = told(tmp_path / "plain")
    for at, name in enumerate(ENCAPSULATIONS):
        link_type, frame = {**WRAPPINGS, **COOKED}[name]
        frames = ((one.time_us, frame(one.frame[14:])) for one in packets if one.frame[12:14] in _IP)
        wrapped = capture(
            data[:20] + struct.pack("<I", link_type), (Record(us, each, len(each)) for us, each in frames)
        )
        compression = [*COMPRESSIONS][1 + (number + at) % 5]
        (tmp_path / "sent").write_bytes(COMPRESSIONS[compression](wrapped))
        night(tmp_path / f"w{at}", tmp_path / "sent", conf=JOINED)
        compared = compare(expected, told(tmp_path / f"w{at}"))
        assert [str(each) for each in compared if not each.is_equal] == [], (name, compression)


def test_what_a_recorder_writes_goes_into_a_night_through_a_pipe(whole: Capture, tmp_path: Path) -> None:
    """In a tunnel, compressed by zstd, by the line of the documents; the same once more: nothing to do."""
    link_type, frame = WRAPPINGS["VXLAN"]
    data = gzip.decompress(CAPTURE.read_bytes())
    frames = ((packet.time_us, frame(packet.frame[14:])) for packet in records(data))
    wrapped = (Record(time_us, wrapped, len(wrapped)) for time_us, wrapped in frames)
    (tmp_path / "sent").write_bytes(COMPRESSIONS["zstd"](capture(data[:20] + struct.pack("<I", link_type), wrapped)))
    line = f"cat sent | {CHECKOUT}/spark-submit.sh nightly --in-process --input - --warehouse w"
    for _ in range(2):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=tmp_path,
            env={**os.environ, "NAMESRV_VENV": sys.prefix},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    compared = compare(told(whole.path), told(tmp_path / "w"))
    assert sum(difference.both for difference in compared) > 500
    assert [str(difference) for difference in compared if not difference.is_equal] == []
