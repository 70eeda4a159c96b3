"""How JARs are found: in a machine's Maven folder as far as it has them, else elsewhere; what once failed is tried anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.oracle import jvm

_COORDINATES = "org.example:thing:1.0"
_POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>thing</artifactId><version>1.0</version></project>"""


def repository(folder: Path, jar: bytes | None) -> Path:
    """Make a Maven repository with a POM, and perhaps its JAR."""
    module = folder / "org" / "example" / "thing" / "1.0"
    module.mkdir(parents=True)
    (module / "thing-1.0.pom").write_text(_POM, encoding="utf-8")
    if jar is not None:
        (module / "thing-1.0.jar").write_bytes(jar)
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder that stands for Maven Central, empty, to a machine whose Maven folder is below `tmp_path`."""
    central = tmp_path / "central"
    text = jvm._SETTINGS.read_text(encoding="utf-8")
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(text.replace('name="central"', f'name="central" root="file://{central}/"'), encoding="utf-8")
    monkeypatch.setattr(jvm, "_SETTINGS", settings)
    monkeypatch.setattr(jvm, "_IVY", tmp_path / "ivy")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Duser.home={tmp_path}")
    return central


@pytest.mark.jvm
def test_a_pom_without_its_jar_in_the_maven_folder_hides_no_jar(tmp_path: Path, elsewhere: Path) -> None:
    """Maven leaves such POMs behind wherever it works: the JAR is fetched all the same."""
    repository(tmp_path / ".m2" / "repository", None)
    repository(elsewhere, b"elsewhere")
    assert [path.read_bytes() for path in jvm.jars(_COORDINATES)] == [b"elsewhere"]


@pytest.mark.jvm
def test_what_was_noted_of_a_folder_that_is_gone_does_not_stay(tmp_path: Path, elsewhere: Path) -> None:
    """A fetch that fails, and one whose files are gone, leave nothing by which the next one fails."""
    local = repository(tmp_path / ".m2" / "repository", None)
    with pytest.raises(jvm.JvmUnavailableError, match=_COORDINATES):
        jvm.jars(_COORDINATES)
    (local / "org/example/thing/1.0/thing-1.0.jar").write_bytes(b"local")
    (path,) = jvm.jars(_COORDINATES)
    assert path.read_bytes() == b"local"
    shutil.rmtree(local)
    repository(elsewhere, b"elsewhere")
    assert jvm.jars(_COORDINATES)[0].read_bytes() == b"local", "our own copy"
    path.unlink()
    assert [path.read_bytes() for path in jvm.jars(_COORDINATES)] == [b"elsewhere"]
