"""A name server's configuration over time, and how each value of it is known.

In this order: given by the operator; stated by the server itself (GET_NAMESRV_CONFIG); inferred from what it answered
and did; inherited from the process before; RocketMQ's default. UPDATE_NAMESRV_CONFIG changes a value from then on. A
value found holds from the start of the process that it was found in, also for days before the evidence.

Sources: RocketMQ 4.9.7 and 5.4.0, classes NamesrvConfig, NettyServerConfig, Configuration, NamesrvStartup,
DefaultRequestProcessor.updateConfig. What a server says of all its properties: `configuration`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from namesrv_core.inference.configuration import (
    NOTHING_KNOWN,
    STORE_PATH,
    UNKNOWN,
    Configuration,
    lines_of,
)
from namesrv_core.machine.profile import Namesrv, NamesrvConfig, Profile, profile_named

Value = bool | int | str | None
VERSION = "version"
SCAN_PHASE = "scan_phase_us"
"""No setting, but as one known by process: by how much packets of scans come after a multiple of the period."""
ADDRESSES = "addresses"
"""Told beside the settings: the addresses of a process that has several. No replay depends on it."""
CONFIGURATION = "configuration"
"""Likewise: all properties, as far as they are known. Answers that show them are held against it (`Configuration.text`)."""
UNLIMITED = "unlimited"
# Where a server without a configuration file of its own (`-c`) writes its configuration; no start reads it from there.
_DEFAULT_STORE = "/namesrv/namesrv.properties"
_ENOUGH = 2
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


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
        return int(text) * self.unit_ms if int(text) > 0 else None


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

    `has_file`: whether it was started with a configuration file, where that is said. `lines`: all properties that it names, as
    they are kept. Where it is not certain, it has no values: a change that nobody has seen accepted, or (it changes nothing)
    a gap in the recording, in which anything may have changed.
    """

    seq: int
    event_id: str
    values: Mapping[str, Value]
    changes: bool
    has_file: bool | None = None
    lines: Mapping[str, str] = MappingProxyType({})
    is_certain: bool = True


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


def statement_of(seq: int, event_id: str, text: str, *, changes: bool, is_certain: bool = True) -> Statement:
    """Return what a properties text says about the settings; a value that the server cannot parse says nothing.

    Source: MixAll.properties2Object, which passes over whatever throws.
    """
    lines = lines_of(text, changes=changes)
    values: dict[str, Value] = {}
    for option in OPTIONS.values() if is_certain else ():
        if option.property in lines:
            try:
                values[option.name] = option.value_of(lines[option.property])
            except ValueError:
                continue
    path = lines.get(STORE_PATH) if is_certain else None
    has_file = None if path is None else not path.endswith(_DEFAULT_STORE)
    return Statement(seq, event_id, values, changes, has_file, lines, is_certain)


def text_of(value: Value) -> str:
    """Return a value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return UNLIMITED if value is None else str(value)


def value_of(name: str, text: str) -> Value:
    """Return the value of setting `name` that `text_of` wrote."""
    if name in (VERSION, CONFIGURATION):
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


def settle(known: Known) -> list[Setting]:
    """Return every value that held on the day, by process, each from where it held."""
    latest = dict(known.before)
    found: list[Setting] = []
    for life, until_seq in zip(known.lives, [*(life.from_seq for life in known.lives[1:]), None], strict=True):
        said = [s for s in known.statements if life.from_seq <= s.seq and (until_seq is None or s.seq < until_seq)]
        version = _version(known, life, latest.get(VERSION))
        profile = profile_named(str(version.value))
        own = [option for option in OPTIONS.values() if option.in_4x or profile.live_key_has_cluster]
        starts = [_at_start(known, life, option.name, said, latest.get(option.name), profile) for option in own]
        has_file = _has_file(said, starts, profile)
        settings = [version]
        for start in starts:
            settings += _through(start, said, has_file=has_file)
        settings += _phase(known, life, latest.get(SCAN_PHASE))
        settings += _configurations(life, said, latest, version, has_file=has_file)
        latest.update((setting.name, setting) for setting in settings)
        found += settings
    return found


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
        elif setting.name not in (SCAN_PHASE, CONFIGURATION):
            values[setting.name] = setting.value
        stretches[max(first_seq, setting.from_seq)] = Namesrv(profile, NamesrvConfig(**values))
    (_, base), *later = stretches.items()
    return Namesrv(base.profile, base.config, tuple(later))


def reconsidered(settled: Iterable[Setting], before: Mapping[str, Setting]) -> list[Setting]:
    """Return the settings that turn out to have had another value, since their process started, than was taken before.

    The days of that process before this one were replayed with the wrong value, or without the phase of its scans. A phase
    that has changed is a clock that was set, and says nothing of those days.
    """
    return [
        setting
        for setting in settled
        if (old := before.get(VERSION if setting.name == SCAN_PHASE else setting.name)) is not None
        and (old.life_seq, old.from_seq) == (setting.life_seq, setting.from_seq)
        and (SCAN_PHASE not in before if setting.name == SCAN_PHASE else old.value != setting.value)
    ]


def _version(known: Known, life: Life, last: Setting | None) -> Setting:
    """Return the version of a process: in a life it cannot change."""
    mine = last if last is not None and last.life_seq == life.from_seq and last.source is not Source.GIVEN else None
    seen = (life.version_id,) if life.version_id is not None else ()
    in_order = (
        _started(VERSION, known.given[VERSION], Source.GIVEN, life) if VERSION in known.given else None,
        mine if mine is not None and mine.source is Source.STATED else None,
        _started(VERSION, life.version, Source.STATED, life, seen, (1, 0)) if life.version is not None else None,
        known.hindsight.get((VERSION, life.from_seq)),
        mine,
        _inherited(last, life) if last is not None and last.source is not Source.GIVEN else None,
    )
    default = _started(VERSION, known.fallback_version, Source.DEFAULT, life)
    return next((setting for setting in in_order if setting is not None), default)


def _at_start(
    known: Known, life: Life, name: str, said: Sequence[Statement], last: Setting | None, profile: Profile
) -> Setting:
    """Return the value with which the process started, or with which it went into the day: the first that is known."""
    mine = last if last is not None and last.life_seq == life.from_seq and last.source is not Source.GIVEN else None
    later = known.hindsight.get((name, life.from_seq))
    in_order = (
        mine if mine is not None and mine.source is Source.CHANGED else None,
        _started(name, known.given[name], Source.GIVEN, life) if name in known.given else None,
        mine if mine is not None and mine.source is Source.STATED else None,
        _stated(said, name, life),
        later if later is not None and later.source is Source.STATED else None,
        mine if mine is not None and not mine.source.is_open else None,
        _voted(known.votes, name, life),
        later,
        mine,
        _inherited(last, life) if last is not None and last.source is not Source.GIVEN else None,
    )
    default = _started(name, default_of(name, profile), Source.DEFAULT, life)
    return next((setting for setting in in_order if setting is not None), default)


def _phase(known: Known, life: Life, last: Setting | None) -> list[Setting]:
    """Return when the process scans, if that is known.

    A phase that was found stays, unless two closes of the day or more agree on another one and none on this.
    """
    mine = last if last is not None and last.life_seq == life.from_seq else None
    cast = [v for v in known.votes if (v.name, v.life_seq) == (SCAN_PHASE, life.from_seq)]
    voted = _voted(cast, SCAN_PHASE, life)
    if mine is not None and (voted is None or voted.answers_for < _ENOUGH or mine.value in (v.value for v in cast)):
        voted = None
    found = voted or mine or known.hindsight.get((SCAN_PHASE, life.from_seq))
    return [] if found is None else [found]


def _stated(said: Sequence[Statement], name: str, life: Life) -> Setting | None:
    """Return what the server says of itself before anything was changed."""
    first = next((statement for statement in said if name in statement.values), None)
    if first is None or first.changes:
        return None
    return _started(name, first.values[name], Source.STATED, life, (first.event_id,), (1, 0))


def _voted(votes: Sequence[Votes], name: str, life: Life) -> Setting | None:
    """Return the value with the most support; None where two have the same."""
    own = sorted((v for v in votes if (v.name, v.life_seq) == (name, life.from_seq)), key=lambda v: -v.answers)
    if not own or (len(own) > 1 and own[0].answers == own[1].answers):
        return None
    best, others = own[0], sum(v.answers for v in own[1:])
    return _started(name, best.value, Source.INFERRED, life, best.evidence, (best.answers, others))


def _started(
    name: str,
    value: Value,
    source: Source,
    life: Life,
    evidence: tuple[str, ...] = (),
    answers: tuple[int, int] = (0, 0),
) -> Setting:
    """Return a setting with which a process started; `answers`: those for it, and those against."""
    return Setting(name, value, source, life.from_seq, life.from_seq, value, evidence, *answers)


def _inherited(last: Setting, life: Life) -> Setting:
    """Return what a new process has from the one before: its file's values, or its own start's.

    A change made while running that went into no file is lost; what is left is nobody's finding.
    """
    is_known = last.source is not Source.DEFAULT and last.restart_value == last.value
    return last._replace(
        value=last.restart_value,
        source=Source.INHERITED if is_known else Source.DEFAULT,
        from_seq=life.from_seq,
        life_seq=life.from_seq,
        evidence=last.evidence if is_known else (),
        answers_for=last.answers_for if is_known else 0,
        answers_against=last.answers_against if is_known else 0,
    )


def _has_file(said: Sequence[Statement], starts: Sequence[Setting], profile: Profile) -> bool:
    """Return whether the process was started with a configuration file: it says so, or something is not the default.

    A change is written to the file named at the start (`-c`), and the next start reads it from there. Without one it
    is written to a place where no start looks.
    """
    stated = [s.has_file for s in said if s.has_file is not None]
    if stated:
        return stated[-1]
    return any(
        start.source is not Source.CHANGED and start.value != default_of(start.name, profile) for start in starts
    )


def _through(start: Setting, said: Sequence[Statement], *, has_file: bool) -> list[Setting]:
    """Return the values of one setting through the life of a process, as changes and later statements have it."""
    values = [start]
    for statement in said:
        if start.name not in statement.values:
            continue
        now, value = values[-1], statement.values[start.name]
        if statement.seq <= now.from_seq:
            continue
        if statement.changes:
            restart_value = value if has_file else now.restart_value
            if OPTIONS[start.name].read_at_start:
                values[-1] = now._replace(restart_value=restart_value)
            else:
                values.append(_next(now, statement, Source.CHANGED, restart_value))
        elif value != now.value and now.source is Source.GIVEN:
            values[-1] = now._replace(answers_against=now.answers_against + 1)
        elif value != now.value:
            # Changed by something that was not recorded.
            values.append(_next(now, statement, Source.STATED, value))
    return values


def _configurations(
    life: Life, said: Sequence[Statement], before: Mapping[str, Setting], version: Setting, *, has_file: bool
) -> list[Setting]:
    """Return what was known of all properties through the life of a process; each holds from behind what says so.

    A process starts with what the one before had in its file, or had itself started with, if it is of the same release: that is
    a guess, as is everything behind a gap.
    """
    last = before.get(CONFIGURATION)
    now = None
    if last is not None and last.life_seq == life.from_seq:
        now = last
    elif last is not None:
        is_same = version.value == before[VERSION].value
        value = last.restart_value if is_same else NOTHING_KNOWN.text
        now = Setting(CONFIGURATION, value, Source.INHERITED, life.from_seq, life.from_seq, value)
    values = [] if now is None else [now]
    for statement in said:
        if now is None or statement.seq > now.from_seq:
            following = _configured(now, statement, life, has_file=has_file)
            if following is not None:
                values.append(now := following)
    return values


def _configured(now: Setting | None, statement: Statement, life: Life, *, has_file: bool) -> Setting | None:
    """Return what is known behind a statement; None: nothing else than before."""
    if not statement.is_certain and not statement.changes:
        return None if now is None else now._replace(source=Source.INHERITED, from_seq=statement.seq)
    known, restart = (
        NOTHING_KNOWN if now is None else Configuration.of(str(value))
        for value in (now and now.value, now and now.restart_value)
    )
    is_guess = now is not None and now.source is Source.INHERITED
    if statement.changes:
        after, source = known.after_change(statement.lines, is_certain=statement.is_certain), Source.CHANGED
        # What goes into no file is not there at the next start.
        restart = after if has_file else restart
        if after == known:
            return None
    else:
        after, source = known.after_answer(statement.lines), Source.STATED
        # What a change had set before the first answer hides what was there at the start, and will be again.
        hidden = {} if has_file or known.is_whole else dict.fromkeys(known.lines, UNKNOWN)
        restart = after.after_change(hidden)
        if after == known and not is_guess:
            return None
    source = Source.INHERITED if is_guess and statement.changes else source
    own = (CONFIGURATION, after.text, source, statement.seq, life.from_seq)
    return Setting(*own, restart.text, (statement.event_id,), 1)


def _next(now: Setting, statement: Statement, source: Source, restart_value: Value) -> Setting:
    value = statement.values[now.name]
    return Setting(now.name, value, source, statement.seq, now.life_seq, restart_value, (statement.event_id,), 1)
