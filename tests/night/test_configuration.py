"""Answers about the configuration, and changes of it, from a capture to the tables: known, verified, and without secrets."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from schemas import bronze, gold
from tests.compare_gold import tables_of
from tests.night.nights import capture_in_two, night, rows
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


def test_answers_about_the_configuration_leave_no_secrets(tmp_path: Path) -> None:
    """Of values that are no numbers or switches of RocketMQ's own nothing is in any table; settings are stated, and changed."""
    asked = asking(
        _shown(BODY, 1),
        _told("secretKey=s3cr3t\norderMessageEnable=true\n", 2),
        _told("kvConfigPath=/s3cr3t\n", 3, 16),
        _shown(BODY.replace("geheim", "s3cr3t"), 4),
    )
    source = tmp_path / "two-minutes.pcap.gz"
    source.write_bytes(gzip.compress(capture_in_two(120)[0], 1))
    with_strangers(source, tmp_path / "asked.pcap", [("127.0.0.1:9876", 407)], [30.3], ["asked"], {"asked": asked})
    said = night(tmp_path / "w", tmp_path / "asked.pcap")
    assert "get_namesrv_config" not in said.verify["others"], "what it shows is held against nothing"
    found = [row for row in rows(tmp_path / "w", gold.NAMESRV_SETTINGS) if row["setting"] == "order_message_enable"]
    assert [(row["source"], row["value"]) for row in found][-1] == ("changed", "true")
    told = [row["config_value"] for row in rows(tmp_path / "w", bronze.ADMIN_EVENTS) if row["code"] == 318]
    assert [text.partition("=")[0] for text in told] == ["secretKey", "kvConfigPath"]
    tables = tables_of(tmp_path / "w", layers=("bronze", "gold"))
    text = "".join(str(table.to_pylist()) for table in tables.values())
    assert not [secret for secret in SECRETS if secret in text]
