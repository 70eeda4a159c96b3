"""The configuration of the pipeline: one TOML file and the command line, read once, typed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from socket import AF_INET6, inet_ntop
from typing import Any

from jobs.errors import ConfError
from namesrv_core.inference.settings import LONGEST_MS, VERSION, Value
from namesrv_core.machine.profile import NamesrvConfig, profile_named
from namesrv_wire.logs.namesrv_log import LogConf, zone_of
from namesrv_wire.packets.segments import DEFAULT_VXLAN_PORTS
from schemas.findings import THRESHOLDS, Thresholds

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_ADDRESS = re.compile(
    r"(\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?)):(?P<port>[0-9]{1,5})"
)
_EXPECTED = "expected ip:port, as 10.0.0.1:9876 or [fd00::1]:9876"
_SHARE, _PORTS, _DAYS = "share from 0 to 1", "list of ports", "number of days"
_OPTIONS = {
    "ingest": {"quarantine_share_max": _SHARE, "quarantine_frames_min": "number of frames", "vxlan_ports": _PORTS},
    "late": {"limit_days": _DAYS, "ahead_limit_minutes": "number of minutes"},
    "verify": {"mismatched_share_max": _SHARE, "mismatched_min": "number of answers"},
    "findings": dict.fromkeys(THRESHOLDS, "whole number of at least 0"),
}
"""Allowed values, by table of the file and key."""
DEFAULT_CONF = Path(__file__).resolve().parent.parent / "conf" / "namesrv-history.toml"


@dataclass(frozen=True, slots=True)
class NamesrvConf:
    """Settings of one name server: its version, settings by their names in NamesrvConfig, its other addresses.

    `addresses`: all its addresses beside its own name; None: not stated. `apart`: addresses of other name servers.
    """

    version: str | None = None
    addresses: tuple[str, ...] | None = None
    apart: tuple[str, ...] = ()
    settings: Mapping[str, bool | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PipelineConf:
    """All settings in force. A night is refused if quarantined frames exceed both `quarantine_frames_min` and the share.

    `late_limit_days`: how far an event may lie behind the latest one of its name server; later ones are quarantined.
    `ahead_limit_minutes`: how far a recorded time may lie after the run's clock; events further ahead are quarantined.
    `mismatched_share_max`, `mismatched_min`: if mismatched answers exceed both, the run's exit code says so.
    `thresholds`: limits from which findings are reported. `namesrvs`: settings by name server id, ip:port; others are
    processed, too. `vxlan_ports`: UDP ports of captured VXLAN. `join_addresses`: whether addresses that findings take for one
    name server's count as if they were configured. `series`: a pattern that splits the captures of one folder into series,
    by its match in their names. `log`: what a name server's log does not state itself (its name server, its time zone).
    """

    quarantine_share_max: float = 0.01
    quarantine_frames_min: int = 100
    late_limit_days: int = 7
    ahead_limit_minutes: int = 60
    mismatched_share_max: float = 0.001
    mismatched_min: int = 10
    thresholds: Thresholds = field(default_factory=Thresholds)
    namesrvs: Mapping[str, NamesrvConf] = field(default_factory=dict)
    vxlan_ports: frozenset[int] = DEFAULT_VXLAN_PORTS
    join_addresses: bool = False
    series: str = ""
    log: LogConf | None = None

    @property
    def sha256(self) -> str:
        """Return the SHA-256, in canonical JSON, of the settings on which results from the stored events depend.

        Limits on what is stored are left out: they are no reason to replay. Joining an address renames rows; that is a reason.
        """
        counting = ("quarantine_share_max", "quarantine_frames_min", "thresholds", "namesrvs")
        settings = {name: value for name, value in dataclasses.asdict(self).items() if name in counting}
        text = json.dumps(settings, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def given(self, addresses: Iterable[str]) -> dict[str, Value]:
        """Return the settings of the name server that has these addresses; on conflict the first address takes precedence."""
        found: dict[str, Value] = {}
        for conf in (self.namesrvs[name] for name in addresses if name in self.namesrvs):
            found = {**conf.settings, **({} if conf.version is None else {VERSION: conf.version}), **found}
        return found

    @property
    def namesrv_of(self) -> dict[str, str]:
        """Return the name server of each configured other address."""
        return {address: name for name, conf in self.namesrvs.items() for address in conf.addresses or ()}

    @property
    def named(self) -> frozenset[str]:
        """Return all addresses that the configuration mentions."""
        others = (address for conf in self.namesrvs.values() for address in (*(conf.addresses or ()), *conf.apart))
        return frozenset((*self.namesrvs, *others))

    @property
    def apart(self) -> frozenset[frozenset[str]]:
        """Return the pairs of addresses that are configured as belonging to two name servers."""
        return frozenset(frozenset((name, other)) for name, conf in self.namesrvs.items() for other in conf.apart)


def load_conf(
    path: Path,
    namesrv_options: Sequence[str] = (),
    *,
    join_addresses: bool = False,
    series: str = "",
    log: Mapping[str, str | None] | None = None,
) -> PipelineConf:
    """Return the settings of a TOML file with `--namesrv` options on top. Raises ConfError.

    `ip:port,ip:port=version` lists the addresses of one name server; `/` separates name servers that are not the same one.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfError(f"{path}: {error}") from error
    _table(document, str(path), {*_OPTIONS, "namesrv", "log"})
    limits: dict[str, Any] = {}
    thresholds: dict[str, int] = {}
    for section, options in _OPTIONS.items():
        where = f"{path} [{section}]"
        for name, value in _table(document.get(section, {}), where, set(options)).items():
            if not _is_valid(value, options[name]):
                raise ConfError(f"{where} {name}: {value!r} is not a {options[name]}")
            if section == "findings":
                field_name, factor = THRESHOLDS[name]
                thresholds[field_name] = value * factor
            else:
                field_name = "late_limit_days" if name == "limit_days" else name
                limits[field_name] = frozenset(value) if isinstance(value, list) else value
    namesrvs: dict[str, NamesrvConf] = {}
    for given, table in _table(document.get("namesrv", {}), f"{path} [namesrv]").items():
        where = f'{path} [namesrv."{given}"]'
        if (name := _address(given, where)) in namesrvs:
            raise ConfError(f"{where}: {name} is there twice")
        namesrvs[name] = _namesrv_conf(table, where)
    for option in namesrv_options:
        _apply_option(namesrvs, option)
    _check_addresses(namesrvs)
    return PipelineConf(
        **limits,
        thresholds=Thresholds(**thresholds),
        namesrvs=namesrvs,
        join_addresses=join_addresses,
        series=series,
        log=_log_settings(document.get("log", {}), f"{path} [log]", log or {}),
    )


def _is_valid(value: object, what: str) -> bool:
    """Return whether a value is of the kind that `_OPTIONS` names."""
    if what == _SHARE:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
    if what == _PORTS:
        return isinstance(value, list) and all(type(port) is int and 0 < port < 1 << 16 for port in value)
    # Python's dates go no further.
    return type(value) is int and 0 <= value < (100_000 if what == _DAYS else 1 << 31)


def _log_settings(table: object, where: str, options: Mapping[str, str | None]) -> LogConf | None:
    """Return the settings for name servers' logs, options first; None unless both name server and time zone are given."""
    stated = _table(table, where, {"zone", "namesrv"})
    for name, value in stated.items():
        if not isinstance(value, str):
            raise ConfError(f"{where} {name}: {value!r} is not a text")
    namesrv, zone = (options.get(name) or stated.get(name) for name in ("namesrv", "zone"))
    if zone is not None:
        try:
            zone_of(zone)
        except ValueError as error:
            raise ConfError(f"--log-zone, or {where} zone: {error}") from error
    if namesrv is not None:
        namesrv = _address(namesrv, f"--log-namesrv, or {where} namesrv")
    return None if namesrv is None or zone is None else LogConf(namesrv, zone)


def _apply_option(namesrvs: dict[str, NamesrvConf], option: str) -> None:
    """Apply a `--namesrv` option: it adds to the settings, or replaces them."""
    where, names = f"--namesrv {option}", list[str]()
    for side in option.split("/"):
        listed, equals, version = side.partition("=")
        name, *others = (_address(address, where) for address in listed.split(","))
        conf = namesrvs.get(name, NamesrvConf())
        if others:
            conf = dataclasses.replace(conf, addresses=tuple(others))
        if equals:
            _check_version(version, where)
            conf = dataclasses.replace(conf, version=version)
        namesrvs[name] = dataclasses.replace(conf, apart=(*conf.apart, *names))
        names.append(name)


def _address(text: object, where: str) -> str:
    """Return an address as captures show it. Raises ConfError."""
    found = _ADDRESS.fullmatch(text) if isinstance(text, str) else None
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        raise ConfError(f"{where}: {text!r} is not an address of a name server, {_EXPECTED}")
    host = found["host"] or found["v6"]
    if found["host"] and not re.fullmatch(r"[0-9.]+", host):
        return f"{host}:{int(found['port'])}"  # an event log may call it so
    try:
        shown = f"[{inet_ntop(AF_INET6, IPv6Address(host).packed)}]" if found["v6"] else str(IPv4Address(host))
    except ValueError as error:
        raise ConfError(f"{where}: {text!r} is not an address of a name server ({error}), {_EXPECTED}") from error
    return f"{shown}:{int(found['port'])}"


def _namesrv_conf(table: object, where: str) -> NamesrvConf:
    types: dict[str, type] = {f.name: type(f.default) for f in dataclasses.fields(NamesrvConfig)}
    types["scan_period_ms"] = int
    stated = _table(table, where, {"version", "addresses", "apart", *types})
    values: dict[str, Any] = {}
    listed: dict[str, tuple[str, ...]] = {}
    for key, value in stated.items():
        if key == "version":
            _check_version(value, where)
        elif key in ("addresses", "apart"):
            if not isinstance(value, list):
                raise ConfError(f"{where} {key}: {value!r} is not a list of addresses")
            listed[key] = tuple(_address(item, f"{where} {key}") for item in value)
        elif type(value) is not types[key]:
            raise ConfError(f"{where} {key}: {value!r} is not a {types[key].__name__}")
        elif type(value) is int and not 0 < value <= LONGEST_MS:
            raise ConfError(f"{where} {key}: {value!r} is not a whole number from 1 to {LONGEST_MS}")
        else:
            values[key] = value
    return NamesrvConf(stated.get("version"), listed.get("addresses"), listed.get("apart", ()), values)


def _check_addresses(namesrvs: Mapping[str, NamesrvConf]) -> None:
    """Raise ConfError for an address of two name servers, or for another address of one that has settings of its own."""
    whose: dict[str, str] = {}
    for name, conf in namesrvs.items():
        for address in conf.addresses or ():
            if address == name or address in namesrvs:
                raise ConfError(f"namesrv {name}: its other address {address} is a name server's own name")
            if whose.setdefault(address, name) != name:
                raise ConfError(f"{address} cannot be an address of both {whose[address]} and {name}")
    for name, conf in namesrvs.items():
        for other in conf.apart:
            if whose.get(other, other) == whose.get(name, name):
                raise ConfError(f"namesrv {name}: {other} cannot be both its own and another one's")


def _table(found: object, where: str, keys: set[str] | None = None) -> dict[str, Any]:
    """Return a table of the file. Raises ConfError if it is not a table, or has keys other than `keys`."""
    if not isinstance(found, dict):
        raise ConfError(f"{where}: {found!r} is not a table of settings")
    unknown = [] if keys is None else sorted(set(found) - keys)
    if unknown:
        raise ConfError(f"{where}: unknown {', '.join(unknown)}; known are {', '.join(sorted(keys or ()))}")
    return found


def _check_version(version: object, where: str) -> None:
    try:
        profile_named(version if isinstance(version, str) else repr(version))
    except ValueError as error:
        raise ConfError(f"{where}: {error}") from error
