"""A night over what a recorder sends: the gold tables are those of the plain capture. All links: `tests/wire/test_links.py`."""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.compare_gold import compare, tables_of
from tests.night.nights import Capture
from tests.pcap import Record, capture, records
from tests.places import CAPTURE, CHECKOUT
from tests.wire.wrapped import COMPRESSIONS, WRAPPINGS

pytestmark = pytest.mark.slow


def told(warehouse: Path) -> dict[str, pa.Table]:
    """Return the gold tables of a warehouse, but for what its runs say of files."""
    return {name: rows for name, rows in tables_of(warehouse, layers=("gold",)).items() if name != "runs"}


def test_what_a_recorder_writes_goes_into_a_night_through_a_pipe(whole: Capture, tmp_path: Path) -> None:
    """In a tunnel, compressed by zstd, by the line of the documents."""
    link_type, frame = WRAPPINGS["VXLAN"]
    data = gzip.decompress(CAPTURE.read_bytes())
    frames = ((packet.time_us, frame(packet.frame[14:])) for packet in records(data))
    wrapped = (Record(time_us, wrapped, len(wrapped)) for time_us, wrapped in frames)
    (tmp_path / "sent").write_bytes(COMPRESSIONS["zstd"](capture(data[:20] + struct.pack("<I", link_type), wrapped)))
    line = f"cat sent | {CHECKOUT}/spark-submit.sh nightly --in-process --input - --warehouse w"
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
