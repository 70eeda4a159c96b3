"""Answers about the configuration, and changes of it, from a capture to the tables: known, verified, and without secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from namesrv_core.inference.configuration import Configuration, kept
from schemas import bronze, gold
from tests.compare_gold import tables_of
from tests.ingest.given import FIRST
from tests.night.nights import CAPTURE, night, rows
from tests.wire.forge import request, response
from tests.wire.strangers import asking, with_strangers

pytestmark = pytest.mark.slow

SECRETS = ("geheim", "s3cr3t", "opt-mq")
BODY = (
    "configStorePath=/etc/ns.conf\nkvConfigPath=/opt-mq/kv\nlistenPort=9876\nsecretKey=geheim\nserverWorkerThreads=8\n"
)


def _shown(body: str, opaque: int) -> tuple[bytes, bytes]:
    return request(319, opaque=opaque), response(opaque, 0, body.encode(), version=407)


def _told(text: str, opaque: int, code: int = 0) -> tuple[bytes, bytes]:
    return request(318, opaque=opaque, body=text.encode()), response(opaque, code, version=407)


def _told_apart(warehouse: Path) -> dict[str, str]:
    found = rows(warehouse, gold.ROUTE_MISMATCHES)
    return {str(row["answer_time"]): row["classification"] for row in found if row["code"] == 319}


def test_answers_about_the_configuration_are_verified(tmp_path: Path) -> None:
    """The first teaches; a change of any property that was accepted is seen in the next; one without a cause is a mismatch.

    Of values that are no numbers or switches of RocketMQ's own nothing is in any table.
    """
    changed = BODY.replace("geheim", "s3cr3t")
    asked = asking(
        _shown(BODY, 1),
        _shown(BODY, 2),
        _told("secretKey=s3cr3t\nunknownKey=s3cr3t\n", 3),
        _shown(changed, 4),
        _told("kvConfigPath=/s3cr3t\n", 5, 16),
        _shown(changed, 6),
        _shown(changed.replace("Threads=8", "Threads=9"), 7),
        _shown(changed.replace("Threads=8", "Threads=9"), 8),
    )
    with_strangers(CAPTURE, tmp_path / "asked.pcap", [("127.0.0.1:9876", 407)], [30.3], ["asked"], {"asked": asked})
    said = night(tmp_path / "w", tmp_path / "asked.pcap")
    assert said.verify["others"]["get_namesrv_config"] == {"answers": 6, "matched": 4}
    (checks,) = (row for row in rows(tmp_path / "w", gold.ANSWER_CHECKS) if row["code"] == 319)
    assert [checks[name] for name in ("answers", "matched", "same_bytes", "unknown_past", "mismatched")] == [
        6,
        4,
        4,
        1,
        1,
    ]
    assert [found for _, found in sorted(_told_apart(tmp_path / "w").items())] == ["unknown_past", "mismatched"]
    known = [row for row in rows(tmp_path / "w", gold.NAMESRV_SETTINGS) if row["setting"] == "configuration"]
    assert [row["source"] for row in known] == ["stated", "changed", "stated"]
    keys = [Configuration.of(row["value"]).lines["secretKey"] for row in known]
    assert keys == [kept("secretKey", "geheim"), *[kept("secretKey", "s3cr3t")] * 2]
    told = [row["config_value"] for row in rows(tmp_path / "w", bronze.ADMIN_EVENTS) if row["code"] == 318]
    assert [text.partition("=")[0] for text in told] == ["secretKey", "kvConfigPath"]
    tables = tables_of(tmp_path / "w", layers=("bronze", "gold"))
    text = "".join(str(table.to_pylist()) for table in tables.values())
    assert not [secret for secret in SECRETS if secret in text]


def _line(kind: str, at: str, **fields: Any) -> str:
    said = {"schema": "namesrv-event/1", "kind": kind, "namesrv_id": "10.0.0.1:9876", "time": at, **fields}
    return json.dumps(said) + "\n"


def test_what_is_known_of_the_configuration_crosses_midnight_and_restarts(tmp_path: Path) -> None:
    """Three nights, one day each: what was stated, changed in a process with a file, and inherited by the next one."""
    broker = {"cluster_name": "C", "broker_name": "b", "broker_addr": "10.0.0.2:10911", "broker_id": 0}
    beat = {**broker, "code": 904, "request_version": 493, "channel_id": "10.0.0.2:4#1"}
    shown = {"code": 319, "response_version": 493, "channel_id": "10.0.0.9:1#1"}
    later = BODY.replace("geheim", "s3cr3t")
    days = [
        _line("namesrv", "2026-01-02T10:00:00Z", event="started")
        + _line("namesrv", "2026-01-02T10:00:01Z", event="identified", version=493)
        + _line("heartbeat", "2026-01-02T10:00:02Z", **beat)
        + _line("observation", "2026-01-02T10:00:03Z", body=BODY, **shown)
        + _line("namesrv", "2026-01-02T10:00:04Z", event="configured", properties=BODY),
        _line("heartbeat", "2026-01-03T00:00:01Z", **beat)
        + _line("observation", "2026-01-03T10:00:00Z", body=BODY, **shown)
        + _line("admin", "2026-01-03T11:00:00Z", code=318, response_code=0, config_value="secretKey=s3cr3t")
        + _line("observation", "2026-01-03T12:00:00Z", body=later, **shown),
        _line("namesrv", "2026-01-04T10:00:00Z", event="stopped")
        + _line("namesrv", "2026-01-04T10:00:10Z", event="started")
        + _line("namesrv", "2026-01-04T10:00:11Z", event="identified", version=493)
        + _line("heartbeat", "2026-01-04T10:00:12Z", **beat)
        + _line("observation", "2026-01-04T11:00:00Z", body=later, **shown)
        + _line("observation", "2026-01-04T12:00:00Z", body=BODY, **shown)
        + _line("namesrv", "2026-01-04T12:00:01Z", event="configured", properties=BODY)
        + _line("observation", "2026-01-04T13:00:00Z", body=later, **shown),
    ]
    counts = []
    for number, lines in enumerate(days):
        (tmp_path / f"{number}.jsonl").write_text(lines, encoding="utf-8")
        said = night(tmp_path / "w", tmp_path / f"{number}.jsonl")
        assert (said.status, said.quarantined) == ("published", 0)
        assert FIRST.isoformat() not in said.days or number == 0
        counts.append(said.verify["others"]["get_namesrv_config"])
    assert counts == [{"answers": 1, "matched": 0}, {"answers": 2, "matched": 2}, {"answers": 3, "matched": 1}]
    assert [found for _, found in sorted(_told_apart(tmp_path / "w").items())] == [
        "unknown_past",
        "unknown_past",
        "mismatched",
    ]
    known = [row for row in rows(tmp_path / "w", gold.NAMESRV_SETTINGS) if row["setting"] == "configuration"]
    found = sorted((str(row["day"]), row["from_seq"], row["source"]) for row in known)
    assert [(day[-2:], source) for day, _, source in found] == [
        ("02", "stated"), ("03", "stated"), ("03", "changed"), ("04", "changed"), ("04", "inherited"), ("04", "stated"),
    ]  # fmt: skip
