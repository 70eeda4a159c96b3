"""The configuration of the pipeline: one TOML file and the command line, read once, typed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobs.errors import ConfError
from namesrv_core.inference.settings import VERSION, Value
from namesrv_core.machine.profile import NamesrvConfig, profile_named
from namesrv_wire.packets.links import DEFAULT_VXLAN_PORTS
from schemas.findings import THRESHOLDS, Thresholds

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_ADDRESS = re.compile(r"[^\s,=]+:[0-9]{1,5}")
DEFAULT_CONF = Path(__file__).resolve().parent.parent / "conf" / "namesrv-history.toml"


@dataclass(frozen=True, slots=True)
class NamesrvConf:
    """What is said about one name server: its version, settings by their name in NamesrvConfig, its other addresses.

    `addresses`: all that it has beside the one by which it is called; None: that is not said.
    """

    version: str | None = None
    addresses: tuple[str, ...] | None = None
    settings: Mapping[str, bool | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PipelineConf:
    """All settings in force. A night is refused if more frames than `quarantine_frames_min` and than the share are quarantined.

    `late_limit_days`: an event may lie so many days behind the latest of its name server; later ones are quarantined.
    `ahead_limit_minutes`: so much later than the run a recorded time may be, since clocks differ; later ones are quarantined.
    `mismatched_share_max`, `mismatched_min`: more answers that do not match, of both, and the run says so by its exit code.
    `quiet_road`: whether brokers that only beat are told from others before the replay.
    `thresholds`: from when on findings are told. `namesrvs`: by name server id, ip:port. `vxlan_ports`: UDP ports to which
    captured VXLAN goes.
    """

    quarantine_share_max: float = 0.01
    quarantine_frames_min: int = 100
    late_limit_days: int = 7
    ahead_limit_minutes: int = 60
    mismatched_share_max: float = 0.001
    mismatched_min: int = 10
    quiet_road: bool = True
    thresholds: Thresholds = field(default_factory=Thresholds)
    namesrvs: Mapping[str, NamesrvConf] = field(default_factory=dict)
    vxlan_ports: frozenset[int] = DEFAULT_VXLAN_PORTS

    @property
    def sha256(self) -> str:
        """Return the SHA-256, in canonical JSON, of the settings on which what is made of the stored events depends.

        What may be stored at all is no reason to replay what is; nor is the road that the replay takes.
        """
        left_out = (
            "late_limit_days",
            "ahead_limit_minutes",
            "mismatched_share_max",
            "mismatched_min",
            "quiet_road",
            "vxlan_ports",
        )
        settings = {name: value for name, value in dataclasses.asdict(self).items() if name not in left_out}
        text = json.dumps(settings, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def given(self, addresses: Iterable[str]) -> dict[str, Value]:
        """Return what is said about the name server that has these addresses, by setting; the first one's counts most."""
        found: dict[str, Value] = {}
        for said in (self.namesrvs[name] for name in addresses if name in self.namesrvs):
            found = {**said.settings, **({} if said.version is None else {VERSION: said.version}), **found}
        return found

    @property
    def namesrv_of(self) -> dict[str, str]:
        """Return whose the addresses are that are said to be a name server's other ones."""
        return {address: name for name, said in self.namesrvs.items() for address in said.addresses or ()}


def load_conf(path: Path, namesrv_options: Sequence[str] = ()) -> PipelineConf:
    """Return the settings of a TOML file with `--namesrv ip:port,ip:port=version` options on top. Raises ConfError."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfError(f"{path}: {error}") from error
    _known(document, {"ingest", "late", "replay", "verify", "findings", "namesrv"}, str(path))
    ingest = document.get("ingest", {})
    _known(ingest, {"quarantine_share_max", "quarantine_frames_min", "vxlan_ports"}, f"{path} [ingest]")
    late = document.get("late", {})
    _known(late, {"limit_days", "ahead_limit_minutes"}, f"{path} [late]")
    _known(document.get("replay", {}), {"quiet_road"}, f"{path} [replay]")
    namesrvs = {
        name: _namesrv_conf(table, f'{path} [namesrv."{name}"]') for name, table in document.get("namesrv", {}).items()
    }
    for option in namesrv_options:
        listed, _, version = option.partition("=")
        name, *others = listed.split(",")
        said = namesrvs.get(name, NamesrvConf())
        if others:
            said = dataclasses.replace(said, addresses=tuple(others))
        if version:
            _check_version(version)
            said = dataclasses.replace(said, version=version)
        namesrvs[name] = said
    _check_addresses(namesrvs)
    known = PipelineConf()
    share = _share(ingest, "quarantine_share_max", f"{path} [ingest]", known.quarantine_share_max)
    frames = _number(ingest, "quarantine_frames_min", "frames", f"{path} [ingest]", known.quarantine_frames_min)
    limit_days = _number(late, "limit_days", "days", f"{path} [late]", known.late_limit_days)
    ahead = _number(late, "ahead_limit_minutes", "minutes", f"{path} [late]", known.ahead_limit_minutes)
    verify = document.get("verify", {})
    _known(verify, {"mismatched_share_max", "mismatched_min"}, f"{path} [verify]")
    mismatched = (
        _share(verify, "mismatched_share_max", f"{path} [verify]", known.mismatched_share_max),
        _number(verify, "mismatched_min", "answers", f"{path} [verify]", known.mismatched_min),
    )
    ports = ingest.get("vxlan_ports", sorted(DEFAULT_VXLAN_PORTS))
    if not isinstance(ports, list) or not all(type(port) is int and 0 < port < 1 << 16 for port in ports):
        raise ConfError(f"{path} [ingest] vxlan_ports: {ports!r} is not a list of ports")
    quiet_road = document.get("replay", {}).get("quiet_road", True)
    if type(quiet_road) is not bool:
        raise ConfError(f"{path} [replay] quiet_road: {quiet_road!r} is neither true nor false")
    thresholds = _thresholds(document.get("findings", {}), f"{path} [findings]")
    return PipelineConf(
        share, frames, limit_days, ahead, *mismatched, quiet_road, thresholds, namesrvs, frozenset(ports)
    )


def _share(table: Mapping[str, Any], name: str, where: str, default: float) -> float:
    value = table.get(name, default)
    if not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ConfError(f"{where} {name}: {value!r} is not a share from 0 to 1")
    return float(value)


def _number(table: Mapping[str, Any], name: str, what: str, where: str, default: int) -> int:
    value = table.get(name, default)
    if type(value) is not int or value < 0:
        raise ConfError(f"{where} {name}: {value!r} is not a number of {what}")
    return value


def _thresholds(table: Mapping[str, Any], where: str) -> Thresholds:
    _known(table, set(THRESHOLDS), where)
    for name, value in table.items():
        if type(value) is not int or value < 0:
            raise ConfError(f"{where} {name}: {value!r} is not a whole number from 0 on")
    return Thresholds(**{THRESHOLDS[name][0]: value * THRESHOLDS[name][1] for name, value in table.items()})


def _namesrv_conf(table: Mapping[str, Any], where: str) -> NamesrvConf:
    types: dict[str, type] = {f.name: type(f.default) for f in dataclasses.fields(NamesrvConfig)}
    types["scan_period_ms"] = int
    _known(table, {"version", "addresses", *types}, where)
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key == "version":
            _check_version(value)
        elif key == "addresses":
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise ConfError(f"{where} addresses: {value!r} is not a list of addresses")
        elif type(value) is not types[key]:
            raise ConfError(f"{where} {key}: {value!r} is not a {types[key].__name__}")
        else:
            values[key] = value
    addresses = tuple(table["addresses"]) if "addresses" in table else None
    return NamesrvConf(table.get("version"), addresses, values)


def _check_addresses(namesrvs: Mapping[str, NamesrvConf]) -> None:
    """Raise ConfError for an address that is said to be two name servers', or of which more is said than whose it is."""
    whose: dict[str, str] = {}
    for name, said in namesrvs.items():
        for address in said.addresses or ():
            if _ADDRESS.fullmatch(address) is None:
                raise ConfError(f"namesrv {name}: {address!r} is not an address, ip:port")
            if address == name or address in namesrvs:
                raise ConfError(f"namesrv {name}: its other address {address} is a name server's own name")
            if whose.setdefault(address, name) != name:
                raise ConfError(f"{address} cannot be an address of both {whose[address]} and {name}")


def _known(table: Mapping[str, Any], keys: set[str], where: str) -> None:
    unknown = sorted(set(table) - keys)
    if unknown:
        raise ConfError(f"{where}: unknown {', '.join(unknown)}; known are {', '.join(sorted(keys))}")


def _check_version(version: object) -> None:
    try:
        profile_named(str(version))
    except ValueError as error:
        raise ConfError(str(error)) from error
