"""Settings of a name server: RocketMQ's properties that change what it does, their values, and how each is known.

Sources: RocketMQ 4.9.7 and 5.4.0, classes NamesrvConfig, NettyServerConfig, MixAll.properties2Object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from namesrv_core.machine.profile import Namesrv, NamesrvConfig, Profile, profile_named

Value = bool | int | str | None
VERSION = "version"
SCAN_PHASE = "scan_phase_us"
"""No setting, but as one known by process: by how much packets of scans come after a multiple of the period."""
ADDRESSES = "addresses"
"""Told beside the settings: the addresses of a process that has several. No replay depends on it."""
UNLIMITED = "unlimited"
LONGEST_MS = 2_147_483_647_000
"""No span counts as longer, 68 years: the longest idle limit that a server takes. What scans more seldom never scans."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


class Source(str, Enum):
    """How a value is known."""

    GIVEN = "given"
    STATED = "stated"
    CHANGED = "changed"
    INFERRED = "inferred"
    INHERITED = "inherited"
    DEFAULT = "default"

    @property
    def is_open(self) -> bool:
        """Return whether evidence is still looked for."""
        return self in (Source.INHERITED, Source.DEFAULT)


class Option(NamedTuple):
    """One setting: its field in NamesrvConfig and RocketMQ's property.

    `unit_ms`: milliseconds in one unit of the property, 0 for a boolean. `read_at_start`: a running process does not
    look at it again.
    """

    name: str
    property: str
    unit_ms: int = 0
    in_4x: bool = False
    read_at_start: bool = False

    def value_of(self, text: str) -> Value:
        """Return the value that a property's text sets. Raises ValueError for one that the server ignores."""
        if not self.unit_ms:
            return text.lower() == "true"
        if _INTEGER.fullmatch(text) is None:
            raise ValueError(f"{self.property}: {text!r} is no number")
        # Netty's idle handler takes a limit of 0 or less for none.
        return min(int(text) * self.unit_ms, LONGEST_MS) if int(text) > 0 else None


OPTIONS = {
    option.name: option
    for option in (
        Option("order_message_enable", "orderMessageEnable", in_4x=True),
        Option("support_acting_master", "supportActingMaster"),
        Option("delete_topic_with_broker_registration", "deleteTopicWithBrokerRegistration"),
        Option("notify_min_broker_id_changed", "notifyMinBrokerIdChanged"),
        Option("return_order_topic_config_to_broker", "returnOrderTopicConfigToBroker"),
        Option("enable_topic_list", "enableTopicList"),
        Option("enable_all_topic_list", "enableAllTopicList"),
        Option("channel_max_idle_ms", "serverChannelMaxIdleTimeSeconds", unit_ms=1_000, in_4x=True),
        Option("scan_period_ms", "scanNotActiveBrokerInterval", unit_ms=1, read_at_start=True),
    )
}


class Statement(NamedTuple):
    """Configuration in the server's own terms: what it answered (319), or what it was told and accepted (318).

    `has_file`: whether it was started with a configuration file, where that is said.
    """

    seq: int
    event_id: str
    values: Mapping[str, Value]
    changes: bool
    has_file: bool | None = None


class Votes(NamedTuple):
    """What speaks for `value` in the process that started at `life_seq`; `evidence`: the first few event ids."""

    life_seq: int
    name: str
    value: Value
    answers: int
    evidence: tuple[str, ...]


class Life(NamedTuple):
    """One process, from its start or from when it was first seen. `version`: as its answers show it, and where."""

    from_seq: int
    version: str | None = None
    version_id: str | None = None


class Setting(NamedTuple):
    """A value from `from_seq` on, in the process that started at `life_seq`.

    `restart_value`: what the next process starts with, as far as is known.
    """

    name: str
    value: Value
    source: Source
    from_seq: int
    life_seq: int
    restart_value: Value
    evidence: tuple[str, ...] = ()
    answers_for: int = 0
    answers_against: int = 0


@dataclass(frozen=True, slots=True)
class Known:
    """All that is known about one name server's configuration on one day.

    `lives`: in order, the first being the process that ran when the day began, if one did. `before`: what held when the
    day before ended. `hindsight`: what later days found out, by name and start of the process. `fallback_version`: to
    be taken where no answer shows one.
    """

    lives: Sequence[Life]
    statements: Sequence[Statement] = ()
    votes: Sequence[Votes] = ()
    given: Mapping[str, Value] = field(default_factory=dict)
    before: Mapping[str, Setting] = field(default_factory=dict)
    hindsight: Mapping[tuple[str, int], Setting] = field(default_factory=dict)
    fallback_version: str = "4.9.7"


def text_of(value: Value) -> str:
    """Return a value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return UNLIMITED if value is None else str(value)


def value_of(name: str, text: str) -> Value:
    """Return the value of setting `name` that `text_of` wrote."""
    if name == VERSION:
        return text
    if name == SCAN_PHASE:
        return int(text)
    if not OPTIONS[name].unit_ms:
        return text == "true"
    return None if text == UNLIMITED else int(text)


def default_of(name: str, profile: Profile) -> Value:
    """Return RocketMQ's default."""
    if name == "scan_period_ms":
        return profile.scan_period_ms
    return getattr(NamesrvConfig(), name)  # type: ignore[no-any-return]


def namesrv_of(settings: Sequence[Setting], from_seq: int = 0) -> Namesrv:
    """Return the name server with these settings: as it was at `from_seq`, or when first seen, and what it became."""
    ordered = sorted(settings, key=lambda setting: (setting.from_seq, setting.name != VERSION))
    first_seq = max(from_seq, ordered[0].from_seq)
    values: dict[str, Any] = {}
    stretches: dict[int, Namesrv] = {}
    for setting in ordered:
        if setting.name == VERSION:
            # A new process starts with nothing of the old one's.
            profile, values = profile_named(str(setting.value)), {}
        elif setting.name != SCAN_PHASE:
            values[setting.name] = setting.value
        stretches[max(first_seq, setting.from_seq)] = Namesrv(profile, NamesrvConfig(**values))
    (_, base), *later = stretches.items()
    return Namesrv(base.profile, base.config, tuple(later))
