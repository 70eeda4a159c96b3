"""What is installed: licences are allowed, and advisories about it are told."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from tools.dependencies import Package, main, packages

ARROW = version("pyarrow")


def test_every_package_of_users_has_a_licence_that_is_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each has a line, those that only tests use too; what a licence says decides."""
    assert main([]) == 0
    said = capsys.readouterr().out
    assert "licences not allowed: none" in said
    users = {one.name: one.is_for_users for one in packages()}
    assert users["pyarrow"]
    assert users["cffi"] == users["cryptography"] is True
    assert not users["scapy"]
    for licence, is_allowed in {
        "MIT AND (Apache-2.0 OR GPL-3.0-only)": True,
        "MIT AND GPL-2.0-only": False,
        "BSD License|Apache Software License": True,
        "not said": False,
    }.items():
        assert Package("x", "1", licence, is_for_users=True).is_allowed == is_allowed


OSV = {
    "id": "OSV-1",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "PyArrow"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "999"}]}],
        }
    ],
}
FIXED = [{"introduced": "0"}, {"fixed": "1.0"}]


@pytest.mark.parametrize(
    ("advisory", "told"),
    [
        (OSV, f"pyarrow {ARROW}: OSV-1, fixed in 999"),
        ([OSV | {"affected": [OSV["affected"][0] | {"ranges": [{"type": "ECOSYSTEM", "events": FIXED}]}]}], None),  # type: ignore[operator]
        (OSV | {"affected": [{"package": {"ecosystem": "npm", "name": "pyarrow"}, "versions": [ARROW]}]}, None),
        (OSV | {"withdrawn": "2026-01-01T00:00:00Z"}, None),
        (
            {"dependencies": [{"name": "pyarrow", "version": ARROW, "vulns": [{"id": "P-1", "fix_versions": []}]}]},
            f"pyarrow {ARROW}: P-1, fixed in no version yet",
        ),
        ({"dependencies": [{"name": "pyarrow", "version": "0.1", "vulns": [{"id": "P-1"}]}]}, None),
    ],
)
def test_an_advisory_is_told_if_it_is_about_what_is_installed(
    advisory: object, told: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of either format, a file or a folder of them: the version decides; the exit code is 1."""
    (tmp_path / "advisory.json").write_text(json.dumps(advisory), encoding="utf-8")
    for path in (tmp_path, tmp_path / "advisory.json"):
        assert main(["--advisories", str(path)]) == (0 if told is None else 1)
        assert f"advisories that apply: {told or 'none'}" in capsys.readouterr().out


def test_what_is_no_advisory_is_a_usage_error(tmp_path: Path) -> None:
    """Nobody takes a file that was not understood for one that finds nothing."""
    (tmp_path / "x.json").write_text('{"a": 1}', encoding="utf-8")
    for path in (tmp_path / "x.json", tmp_path / "none.json"):
        with pytest.raises(SystemExit) as ended:
            main(["--advisories", str(path)])
        assert ended.value.code == 2
