"""The configuration of the pipeline: one TOML file and the command line, read once, typed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from namesrv_core.profile import PROFILES, Namesrv, NamesrvConfig, Profile, profile_of_version

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_CONF = Path(__file__).resolve().parent.parent / "conf" / "namesrv-history.toml"


class ConfError(ValueError):
    """A configuration that says something unknown or impossible."""


@dataclass(frozen=True, slots=True)
class NamesrvConf:
    """What is said about one name server: its version if it is given, and its configuration."""

    version: str | None = None
    config: NamesrvConfig = field(default_factory=NamesrvConfig)


@dataclass(frozen=True, slots=True)
class PipelineConf:
    """All settings in force. A night is refused if more frames than `quarantine_frames_min` and than the share are quarantined.

    `namesrvs`: by name server id, ip:port.
    """

    quarantine_share_max: float = 0.01
    quarantine_frames_min: int = 100
    namesrvs: Mapping[str, NamesrvConf] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the settings in canonical JSON."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def namesrv_of(self, namesrv_id: str, seen_version: int) -> Namesrv:
        """Return generation and configuration of a name server; `seen_version` is the ordinal that its traffic shows."""
        said = self.namesrvs.get(namesrv_id, NamesrvConf())
        profile = profile_of_version(seen_version) if said.version is None else _profile(said.version)
        return Namesrv(profile, said.config)


def load_conf(path: Path, namesrv_options: Sequence[str] = ()) -> PipelineConf:
    """Return the settings of a TOML file with `--namesrv ip:port=version` options on top. Raises ConfError."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfError(f"{path}: {error}") from error
    _known(document, {"ingest", "namesrv"}, str(path))
    ingest = document.get("ingest", {})
    _known(ingest, {"quarantine_share_max", "quarantine_frames_min"}, f"{path} [ingest]")
    namesrvs = {
        name: _namesrv_conf(table, f'{path} [namesrv."{name}"]') for name, table in document.get("namesrv", {}).items()
    }
    for option in namesrv_options:
        name, _, version = option.partition("=")
        said = namesrvs.get(name, NamesrvConf())
        if version:
            _profile(version)
            said = dataclasses.replace(said, version=version)
        namesrvs[name] = said
    share, frames = ingest.get("quarantine_share_max", 0.01), ingest.get("quarantine_frames_min", 100)
    if not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise ConfError(f"{path} [ingest] quarantine_share_max: {share!r} is not a share from 0 to 1")
    if type(frames) is not int or frames < 0:
        raise ConfError(f"{path} [ingest] quarantine_frames_min: {frames!r} is not a number of frames")
    return PipelineConf(float(share), frames, namesrvs)


def _namesrv_conf(table: Mapping[str, Any], where: str) -> NamesrvConf:
    types: dict[str, type] = {f.name: type(f.default) for f in dataclasses.fields(NamesrvConfig)}
    types["scan_period_ms"] = int
    _known(table, {"version", *types}, where)
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key == "version":
            _profile(value)
        elif type(value) is not types[key]:
            raise ConfError(f"{where} {key}: {value!r} is not a {types[key].__name__}")
        else:
            values[key] = value
    return NamesrvConf(table.get("version"), NamesrvConfig(**values))


def _known(table: Mapping[str, Any], keys: set[str], where: str) -> None:
    unknown = sorted(set(table) - keys)
    if unknown:
        raise ConfError(f"{where}: unknown {', '.join(unknown)}; known are {', '.join(sorted(keys))}")


def _profile(version: object) -> Profile:
    """Return the profile for a version given by name: an exact one, or the generation it belongs to."""
    if version in PROFILES:
        return PROFILES[str(version)]
    major = str(version).split(".", maxsplit=1)[0]
    found = {"4": "4.9.7", "5": "5.4.0"}.get(major)
    if found is None:
        raise ConfError(f"version {version!r}: known are 4.x (as 4.9.7) and 5.x (as 5.4.0)")
    return PROFILES[found]
