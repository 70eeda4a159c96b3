"""Settings: what the file and the command line may say, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.conf import DEFAULT_CONF, ConfError, PipelineConf, load_conf
from namesrv_core.profile import V4_9_7, V5_4_0, NamesrvConfig

FIRST_5X, LAST_4X = 412, 411


def conf_of(tmp_path: Path, text: str) -> PipelineConf:
    """Return the settings of a file with `text`."""
    path = tmp_path / "conf.toml"
    path.write_text(text, encoding="utf-8")
    return load_conf(path)


def test_the_shipped_file_says_nothing_but_the_defaults() -> None:
    """The file in conf/ and no file at all mean the same."""
    assert load_conf(DEFAULT_CONF) == PipelineConf()


def test_a_name_server_is_replayed_by_what_is_said_about_it(tmp_path: Path) -> None:
    """Configuration comes from the file; a version on the command line wins over the one in the traffic."""
    text = '[namesrv."10.0.0.1:9876"]\norder_message_enable = true\nscan_period_ms = 7000\n'
    path = tmp_path / "conf.toml"
    path.write_text(text, encoding="utf-8")
    namesrv = load_conf(path, ["10.0.0.1:9876=5.3.1"]).namesrv_of("10.0.0.1:9876", LAST_4X)
    assert namesrv.profile is V5_4_0
    assert namesrv.config == NamesrvConfig(order_message_enable=True, scan_period_ms=7000)
    assert namesrv.scan_period_ms == 7000


def test_the_generation_follows_from_the_version_in_the_traffic() -> None:
    """The last 4.x ordinal means the rules of 4.9.7, the first 5.x ordinal those of 5.4.0."""
    conf = PipelineConf()
    assert conf.namesrv_of("10.0.0.1:9876", LAST_4X).profile is V4_9_7
    assert conf.namesrv_of("10.0.0.1:9876", FIRST_5X).profile is V5_4_0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[ingst]\n", "unknown ingst"),
        ("[ingest]\nlimit = 1\n", "unknown limit"),
        ("[ingest]\nquarantine_share_max = 2.0\n", "not a share"),
        ("[ingest]\nquarantine_frames_min = -1\n", "not a number of frames"),
        ('[namesrv."a:1"]\norder_message_enable = 1\n', "is not a bool"),
        ('[namesrv."a:1"]\nversion = "3.2.6"\n', "known are 4.x"),
        ('[namesrv."a:1"]\norderMessageEnable = true\n', "unknown orderMessageEnable"),
        ("[ingest\n", "conf.toml"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    """Unknown keys, wrong types and impossible values are errors that say where and what."""
    with pytest.raises(ConfError, match=complaint):
        conf_of(tmp_path, text)


def test_the_digest_follows_the_settings(tmp_path: Path) -> None:
    """Other settings have another digest, the same settings the same."""
    changed = conf_of(tmp_path, "[ingest]\nquarantine_share_max = 0.5\n")
    assert changed.sha256 != PipelineConf().sha256
    assert conf_of(tmp_path, "").sha256 == PipelineConf().sha256
