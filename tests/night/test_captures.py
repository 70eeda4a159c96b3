"""Captures of real name servers give the tables that the first version of this software made of them, whoever calls the passes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.ingest.ingest import ingest
from jobs.night.passes import OnSpark
from tests.night.content import EXPECTED, content_of
from tests.night.nights import Capture, house_at, night

VARIABLE = "NAMESRV_CAPTURES"
"""Names the folder of the captures that are too large to be part of this repository."""
FILES = {
    "network": "network/host.pcap.gz",
    "v5-acting-master": "v5-acting-master/capture.pcap.gz",
    "v5-lifecycle": "v5-lifecycle/capture.pcap.gz",
    "v5-two-namesrv": "v5-two-namesrv/capture.pcap.gz",
}


def expected(name: str) -> dict[str, str]:
    """Return the content of the gold tables that the first version made of a capture."""
    found: dict[str, str] = json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))
    return found


def test_the_bundled_capture_gives_what_it_gave(whole: Capture) -> None:
    """All gold tables but the findings are equal by content, whatever files and digests they have."""
    assert content_of(whole.path) == expected("v4-lifecycle")


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_other_captures_give_what_they_gave(name: str, tmp_path: Path) -> None:
    """4.x and 5.x, two name servers, acting masters, a network that loses packets and knows only a part of the past."""
    night(tmp_path / "w", file_of(name))
    assert content_of(tmp_path / "w") == expected(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_spark_gives_of_other_captures_what_one_process_gives(name: str, tmp_path: Path, spark: SparkSession) -> None:
    """Tasks of a Spark job, with other numbers of packs: the digest of every gold table is that of one process."""
    read = tmp_path / "in-process"
    assert ingest(house_at(read, "read-in"), [str(file_of(name))]).unaccounted == 0
    shutil.copytree(read, tmp_path / "on-spark")
    said, on_spark = night(read), night(tmp_path / "on-spark", passes=OnSpark(lambda: spark))
    assert (on_spark.digests, on_spark.verify) == (said.digests, said.verify)


def file_of(name: str) -> Path:
    """Return a capture; skip the test where it is not at hand."""
    if VARIABLE not in os.environ:
        pytest.skip(f"not in this repository: {VARIABLE} names the folder that has {FILES[name]}")
    return Path(os.environ[VARIABLE]) / FILES[name]
