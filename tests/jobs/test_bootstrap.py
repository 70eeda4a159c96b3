"""A night on a recording that begins in the middle of a name server's life."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import struct
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import nightly
from jobs.conf import PipelineConf
from jobs.console import Console
from jobs.nightly import Summary
from jobs.warehouse import Warehouse

CAPTURE = Path(__file__).parents[2] / "examples" / "v4-lifecycle" / "capture.pcap.gz"
# Ten seconds before, a topic was deleted; brokers hold topics that their registrations do not name.
BEGIN_S = 300


def capture_from(seconds: int, path: Path) -> Path:
    """Write the bundled capture without its first `seconds` to `path`."""
    data = gzip.decompress(CAPTURE.read_bytes())
    offset, first_s = 24, struct.unpack_from("<I", data, 24)[0]
    while struct.unpack_from("<I", data, offset)[0] < first_s + seconds:
        offset += 16 + struct.unpack_from("<I", data, offset + 8)[0]
    path.write_bytes(data[:24] + data[offset:])
    return path


@pytest.fixture(scope="module")
def house(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Return a warehouse for one run."""
    path = tmp_path_factory.mktemp("warehouse")
    return Warehouse(spark, str(path), PipelineConf(), "run-0", dt.datetime.now(dt.timezone.utc))


@pytest.fixture(scope="module")
def summary(house: Warehouse, tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """Return the summary of a night on the capture's last part."""
    capture = capture_from(BEGIN_S, tmp_path_factory.mktemp("cut") / "cut.pcap")
    return nightly.run(house, [str(capture)], Console(io.StringIO(), io.StringIO()))


def test_what_was_not_known_is_a_class_of_its_own(summary: Summary) -> None:
    """No answer contradicts what is known; those that only showed what was not are few, counted, and named."""
    assert summary.status == "published"
    assert summary.verify["mismatched"] == 0
    unknown = summary.verify["explained"]["unknown_past"]
    assert summary.verify["answers"] == summary.verify["matched"] + unknown
    assert 0 < unknown < summary.verify["answers"] // 100


def test_rows_say_since_when_they_are_known(summary: Summary, house: Warehouse) -> None:
    """A row that an answer revealed names the answer; what came later was seen to begin."""
    assert summary.warnings is not None
    rows = house.data()["topic_queue_history"]
    outcomes = house.data()["event_outcomes"].where("operation = 'observed_answer'")
    revealed = rows.join(outcomes.select("event_id"), rows["opened_by"] == outcomes["event_id"], "left_semi")
    assert revealed.where("NOT beginning_seen AND known_from = valid_from").count() > 0
    assert revealed.where("beginning_seen OR known_from IS NULL").count() == 0
    assert rows.where("beginning_seen AND known_from = valid_from").count() > 0
    assert rows.where("beginning_seen AND known_from IS DISTINCT FROM valid_from").count() == 0
