"""Nights over captures as clouds and hosts make them: the gold tables are those of the plain capture."""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from namesrv_day.audit.content import compare
from tests.compare_gold import tables_of
from tests.night.nights import CAPTURE, CHECKOUT, FRAMES, Capture, night
from tests.wire.wrapped import COMPRESSIONS, COOKED, WRAPPINGS, ethernet, vxlan

ALL = {**WRAPPINGS, **COOKED}
NAME = CAPTURE.name
"""What all these files are called: tables tell it."""


def captured(link_type: int, *ways: Callable[[bytes], bytes]) -> bytes:
    """Return the bundled capture with each IP packet in each of these ways, one behind the other."""
    data, at = gzip.decompress(CAPTURE.read_bytes()), 24
    out = [data[:20], struct.pack("<I", link_type)]
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at + 8)
        time, ip = data[at : at + 8], data[at + 16 + 14 : at + 16 + size]
        frames = [way(ip) for way in ways]
        out += [time + struct.pack("<II", len(frame), len(frame)) + frame for frame in frames]
        at += 16 + size
    return b"".join(out)


def told(warehouse: Path) -> dict[str, pa.Table]:
    """Return the gold tables of a warehouse, but for what its runs say of files."""
    return {name: rows for name, rows in tables_of(warehouse, layers=("gold",)).items() if name != "runs"}


def assert_alike(found: Path, plain: Path) -> None:
    """Assert that two warehouses have the same gold tables."""
    compared = compare(told(plain), told(found))
    assert sum(difference.both for difference in compared) > 500
    assert [str(difference) for difference in compared if not difference.is_equal] == []


@pytest.mark.slow
def test_the_tables_of_a_night_do_not_tell_of_tags_and_compression(whole: Capture, tmp_path: Path) -> None:
    """Tagged packets of a cooked capture, compressed by xz."""
    link_type, frame = ALL["cooked v2, VLAN"]
    path = tmp_path / NAME
    path.write_bytes(COMPRESSIONS["xz"](captured(link_type, frame)))
    said = night(tmp_path / "w", path)
    assert (said.errors, said.frames) == ([], FRAMES)
    assert_alike(tmp_path / "w", whole.path)


@pytest.mark.slow
def test_the_tables_of_a_night_do_not_tell_of_what_was_seen_twice(whole: Capture, tmp_path: Path) -> None:
    """Each packet direct, and mirrored in VXLAN."""
    path = tmp_path / NAME
    path.write_bytes(captured(1, ethernet, lambda ip: ethernet(vxlan(ethernet(ip)))))
    said = night(tmp_path / "w", path)
    assert (said.errors, said.frames) == ([], FRAMES)
    assert_alike(tmp_path / "w", whole.path)


@pytest.mark.slow
def test_what_a_recorder_writes_goes_into_a_night_through_a_pipe(whole: Capture, tmp_path: Path) -> None:
    """In a tunnel, compressed by zstd, by the line of the documents; the same once more: nothing to do."""
    link_type, frame = ALL["VXLAN"]
    (tmp_path / "sent").write_bytes(COMPRESSIONS["zstd"](captured(link_type, frame)))
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
    assert_alike(tmp_path / "w", whole.path)
