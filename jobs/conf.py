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
    `quiet_road`: whether brokers that only beat are told from others before the replay.
    `thresholds`: from when on findings are told. `namesrvs`: by name server id, ip:port. `vxlan_ports`: UDP ports to which
    captured VXLAN goes.
    """

    quarantine_share_max: float = 0.01
    quarantine_frames_min: int = 100
    late_limit_days: int = 7
    quiet_road: bool = True
    thresholds: Thresholds = field(default_factory=Thresholds)
    namesrvs: Mapping[str, NamesrvConf] = field(default_factory=dict)
    vxlan_ports: frozenset[int] = DEFAULT_VXLAN_PORTS

    @property
    def sha256(self) -> str:
        """Return the SHA-256, in canonical JSON, of the settings on which what is made of the stored events depends.

        What may be stored at all is no reason to replay what is; nor is the road that the replay takes.
        """
        left_out = ("late_limit_days", "quiet_road", "vxlan_ports")
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
    _known(document, {"ingest", "late", "replay", "findings", "namesrv"}, str(path))
    ingest = document.get("ingest", {})
    _known(ingest, {"quarantine_share_max", "quarantine_frames_min", "vxlan_ports"}, f"{path} [ingest]")
    late = document.get("late", {})
    _known(late, {"limit_days"}, f"{path} [late]")
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
    share, frames = ingest.get("quarantine_share_max", 0.01), ingest.get("quarantine_frames_min", 100)
    if not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise ConfError(f"{path} [ingest] quarantine_share_max: {share!r} is not a share from 0 to 1")
    if type(frames) is not int or frames < 0:
        raise ConfError(f"{path} [ingest] quarantine_frames_min: {frames!r} is not a number of frames")
    ports = ingest.get("vxlan_ports", sorted(DEFAULT_VXLAN_PORTS))
    if not isinstance(ports, list) or not all(type(port) is int and 0 < port < 1 << 16 for port in ports):
        raise ConfError(f"{path} [ingest] vxlan_ports: {ports!r} is not a list of ports")
    limit_days = late.get("limit_days", 7)
    if type(limit_days) is not int or limit_days < 0:
        raise ConfError(f"{path} [late] limit_days: {limit_days!r} is not a number of days")
    quiet_road = document.get("replay", {}).get("quiet_road", True)
    if type(quiet_road) is not bool:
        raise ConfError(f"{path} [replay] quiet_road: {quiet_road!r} is neither true nor false")
    thresholds = _thresholds(document.get("findings", {}), f"{path} [findings]")
    return PipelineConf(float(share), frames, limit_days, quiet_road, thresholds, namesrvs, frozenset(ports))


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
