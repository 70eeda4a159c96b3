"""Settings: what the file and the command line may say, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.conf import DEFAULT_CONF, PipelineConf, load_conf
from jobs.errors import ConfError
from schemas.findings import Thresholds


def conf_of(tmp_path: Path, text: str) -> PipelineConf:
    """Return the settings of a file with `text`."""
    path = tmp_path / "conf.toml"
    path.write_text(text, encoding="utf-8")
    return load_conf(path)


def test_the_shipped_file_says_nothing_but_the_defaults() -> None:
    """The file in conf/ and no file at all mean the same."""
    assert load_conf(DEFAULT_CONF) == PipelineConf()


def test_a_name_server_is_replayed_by_what_is_said_about_it(tmp_path: Path) -> None:
    """Settings come from the file, a version from the command line too."""
    text = '[namesrv."10.0.0.1:9876"]\norder_message_enable = true\nscan_period_ms = 7000\n'
    path = tmp_path / "conf.toml"
    path.write_text(text, encoding="utf-8")
    given = load_conf(path, ["10.0.0.1:9876=5.3.1"]).given(["10.0.0.1:9876"])
    assert given == {"version": "5.3.1", "order_message_enable": True, "scan_period_ms": 7000}


def test_what_is_not_said_is_not_given(tmp_path: Path) -> None:
    """A setting that the file leaves out is left to the traffic, even where another one is said."""
    conf = conf_of(tmp_path, '[namesrv."10.0.0.1:9876"]\norder_message_enable = false\n')
    assert conf.given(["10.0.0.1:9876"]) == {"order_message_enable": False}
    assert conf.given(["10.0.0.2:9876"]) == {}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[ingst]\n", "unknown ingst"),
        ("[ingest]\nlimit = 1\n", "unknown limit"),
        ("[ingest]\nquarantine_share_max = 2.0\n", "not a share"),
        ("[ingest]\nquarantine_share_max = true\n", "not a share"),
        ("late = 7\n", ": 7 is not a table of settings"),
        ("findings = []\n", "findings.: .. is not a table of settings"),
        ('log = "GMT+8"\n', ": 'GMT.8' is not a table of settings"),
        ('namesrv = "10.0.0.1:9876"\n', ": '10.0.0.1:9876' is not a table of settings"),
        ("[ingest]\nquarantine_frames_min = -1\n", "not a number of frames"),
        ("[log]\nzone = -1\n", "-1 is not a text"),
        ('[log]\nzone = ""\n', "'' is no time zone"),
        ('[log]\nnamesrv = "10.0.0.1"\n', "'10.0.0.1' is not an address"),
        ('[namesrv."a:1"]\norder_message_enable = 1\n', "is not a bool"),
        ('[namesrv."a:1"]\nscan_period_ms = -1\n', "not a whole number from 1"),
        ('[namesrv."a:1"]\nun_register_broker_queue_capacity = 0\n', "not a whole number from 1"),
        (f'[namesrv."a:1"]\nchannel_max_idle_ms = {1 << 63}\n', "not a whole number from 1"),
        ('[namesrv."[::1]:1"]\n[namesrv."[0:0::1]:01"]\n', r"\[::1\]:1 is there twice"),
        ('[namesrv."a:1"]\n[namesrv."a:01"]\n', "a:1 is there twice"),
        ('[namesrv."a:1"]\nversion = "3.2.6"\n', "expected a 4.x"),
        ('[namesrv."a:1"]\norderMessageEnable = true\n', "unknown orderMessageEnable"),
        ("[late]\nlimit = 1\n", "unknown limit"),
        ("[late]\nlimit_days = -1\n", "not a number of days"),
        ("[late]\nlimit_days = 1.5\n", "not a number of days"),
        (f"[late]\nlimit_days = {10**5}\n", "not a number of days"),
        ("[late]\nahead_limit_minutes = -1\n", "not a number of minutes"),
        ("[verify]\nmismatched_share_max = 2\n", "not a share"),
        ("[verify]\nmismatched_min = 0.5\n", "not a number of answers"),
        ("[verify]\nmismatches = 1\n", "unknown mismatches"),
        ("[ingest\n", "conf.toml"),
        ("[findings]\nflapping_s = 1\n", "unknown flapping_s"),
        ("[findings]\nmany_topics = -1\n", "not a whole number"),
        ("[findings]\nmany_topics = true\n", "not a whole number"),
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


def test_what_may_come_late_is_no_reason_to_replay(tmp_path: Path) -> None:
    """The limit decides what is stored; another one leaves the digest on which published days hang as it is."""
    changed = conf_of(tmp_path, "\ufeff[late]\nlimit_days = 40\n")  # as some editors begin a file
    assert changed.late_limit_days == 40
    assert changed.sha256 == PipelineConf().sha256


def test_thresholds_of_findings_are_given_in_units_for_people(tmp_path: Path) -> None:
    """Each in `conf/`, in the unit that its name says; another value is a reason to judge days again."""
    text = "[findings]\nflapping_within_s = 60\nback_within_s = 5\nghost_after_s = 6\nunwritable_after_ms = 70\n"
    conf = conf_of(tmp_path, f"{text}clock_ahead_ms = 8\nmany_topics = 9\n")
    assert conf.thresholds == Thresholds(60_000_000, 5_000_000, 6_000_000, 70_000, 8, 9)
    assert conf.sha256 != PipelineConf().sha256


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("10.0.0.1", "expected ip:port"),
        ("10.0.0.1:", "expected ip:port"),
        ("10.0.0.1:0", "expected ip:port"),
        ("10.0.0.1:65536", "expected ip:port"),
        ("10.0.0.256:9876", "expected ip:port"),
        ("fd00::1:9876", "expected ip:port"),
        ("[fd00:::1]:9876", "expected ip:port"),
        ("", "expected ip:port"),
        ("10.0.0.1:9876,", "expected ip:port"),
        ("10.0.0.1:9876/", "expected ip:port"),
        ("10.0.0.1:9876 10.0.0.2:9876", "expected ip:port"),
        ("10.0.0.1:9876=", "expected a 4.x"),
        ("10.0.0.1:9876=newest", "expected a 4.x"),
        ("10.0.0.1:9876,10.0.0.9:9876/10.0.0.9:9876", "its other address 10.0.0.9:9876"),
        ("10.0.0.1:9876/10.0.0.1:9876", "both its own and another one's"),
    ],
)
def test_a_mistake_in_an_option_is_named_with_what_is_expected(option: str, complaint: str) -> None:
    """No address that can never occur, and no version that nobody knows, is taken."""
    with pytest.raises(ConfError, match=complaint):
        load_conf(DEFAULT_CONF, [option])


@pytest.mark.parametrize("key", ["addresses", "apart"])
def test_a_mistake_in_an_address_of_the_file_is_named(tmp_path: Path, key: str) -> None:
    """Where it stands, and what is expected; so is an address that is both."""
    for said, complaint in (
        ('"10.0.0.9:9876"', "not a list"),
        ('["10.0.0.9"]', f"{key}: .*expected ip:port"),
        ("[1]", "expected"),
    ):
        with pytest.raises(ConfError, match=complaint):
            conf_of(tmp_path, f'[namesrv."10.0.0.1:9876"]\n{key} = {said}\n')
    with pytest.raises(ConfError, match="expected ip:port"):
        conf_of(tmp_path, '[namesrv."10.0.0.1"]\nversion = "4.9.7"\n')
    with pytest.raises(ConfError, match="both its own"):
        conf_of(tmp_path, '[namesrv."10.0.0.1:9876"]\naddresses = ["10.0.0.9:9876"]\napart = ["10.0.0.9:9876"]\n')


def test_addresses_are_one_or_apart_in_the_file_and_as_an_option(tmp_path: Path) -> None:
    """Both say both, and an address is written as captures show it."""
    text = '[namesrv."10.0.0.1:9876"]\naddresses = ["[FD00:0::1]:9876"]\napart = ["10.0.0.2:9876"]\n'
    option = ["10.0.0.1:9876,[fd00:0:0::1]:09876/10.0.0.2:9876=5.4.0"]
    for conf in (conf_of(tmp_path, text), load_conf(DEFAULT_CONF, option)):
        assert conf.namesrv_of == {"[fd00::1]:9876": "10.0.0.1:9876"}
        assert conf.apart == {frozenset(("10.0.0.1:9876", "10.0.0.2:9876"))}
        assert conf.named == {"10.0.0.1:9876", "[fd00::1]:9876", "10.0.0.2:9876"}
    assert load_conf(DEFAULT_CONF, option).given(["10.0.0.2:9876"]) == {"version": "5.4.0"}
    assert load_conf(DEFAULT_CONF, join_addresses=True).sha256 == PipelineConf().sha256
