"""Settings of a name server: RocketMQ's properties that affect its behaviour, their values over time, and their sources.

The first known of these counts: given by the operator; stated by the server itself (GET_NAMESRV_CONFIG); inferred from
its answers and its behaviour; inherited from the process before; RocketMQ's default. UPDATE_NAMESRV_CONFIG changes a
value from then on. A value holds from the start of its process, also for days before the evidence was recorded.

Of a configuration that a server states, one `name=value` a line is kept, in the order of the answer. It holds the values of
RocketMQ's own numbers and switches. Any other value (a path, or an operator's own property) is replaced by a digest: too short to
recover the value, long enough to show that it changed.

Sources: RocketMQ 4.9.7 and 5.4.0, classes NamesrvConfig, NettyServerConfig, Configuration, NamesrvStartup,
DefaultRequestProcessor.updateConfig, MixAll.properties2Object, MixAll.properties2String.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from namesrv_core.asking.requests import java_boolean, java_int, java_long
from namesrv_core.machine.profile import Namesrv, NamesrvConfig, Profile, profile_named

STORE_PATH = "configStorePath"
"""This path is kept, too: it tells whether the server was started with a configuration file."""
# A server started without a configuration file (`-c`) writes its configuration to this file; no start reads it.
_DEFAULT_STORE = "/namesrv/namesrv.properties"
_SWITCHES = frozenset(
    {
        *("clusterTest", "orderMessageEnable", "serverPooledByteBufAllocatorEnable", "useEpollNativeSelector"),
        *("deleteTopicWithBrokerRegistration", "enableAllTopicList", "enableControllerInNamesrv"),
        *("enableShutdownGracefully", "enableTopicList", "needWaitForService", "notifyMinBrokerIdChanged"),
        *("returnOrderTopicConfigToBroker", "serverNettyWorkerGroupEnable", "supportActingMaster"),
    }
)
_INTEGERS = frozenset(
    {
        *("listenPort", "serverAsyncSemaphoreValue", "serverCallbackExecutorThreads", "serverOnewaySemaphoreValue"),
        *("serverChannelMaxIdleTimeSeconds", "serverSelectorThreads", "serverSocketBacklog", "serverSocketRcvBufSize"),
        *("serverSocketSndBufSize", "serverWorkerThreads", "writeBufferHighWaterMark", "writeBufferLowWaterMark"),
        *("clientRequestThreadPoolNums", "clientRequestThreadPoolQueueCapacity", "defaultThreadPoolNums"),
        *("defaultThreadPoolQueueCapacity", "shutdownWaitTimeSeconds", "unRegisterBrokerQueueCapacity"),
        "waitSecondsForService",
    }
)
_LONGS = frozenset({"scanNotActiveBrokerInterval"})
_LINE = re.compile(r"[ \t]*(\?[0-9a-f]{8}|[\w.-]{1,200})[ \t]*=(.*)", re.ASCII | re.DOTALL)
_NAME = re.compile(r"\?[0-9a-f]{8}|[\w.-]{1,200}", re.ASCII)
_DIGEST = re.compile(r"#[0-9a-f]{8}")


def kept(name: str, value: str, *, again: bool = False) -> str:
    """Return the kept form of a value: a number or a switch as the server parses it, else a digest. `again`: keep digests."""
    is_number = name in _INTEGERS or name in _LONGS
    if is_number and (number := (java_int if name in _INTEGERS else java_long)(value)) is not None:
        return str(number)
    if name in _SWITCHES:
        return "true" if java_boolean(value) else "false"
    if name == STORE_PATH and "\n" not in value:
        return value.strip().replace("\\", "/")
    if again and _DIGEST.fullmatch(value):
        return value
    # Stripped, because 5.x strips values and 4.x does not.
    return "#" + _digest(f"{name}\n{value.strip()}")


def shown_text(body: str, *, again: bool = False) -> str:
    """Return the kept text of an answer to GET_NAMESRV_CONFIG. `again`: `body` may be a kept text itself."""
    return _text(_shown(body, again=again))


def change_text(text: str, *, again: bool = False) -> str:
    """Return the kept text of the body of UPDATE_NAMESRV_CONFIG: properties with the same names."""
    changed = _changed(text, again=again)
    return "\\u" if changed is None else _text(changed)  # unreadable, like `text`


def lines_of(text: str, *, changes: bool) -> dict[str, str]:
    """Return the values by name of a text kept by `shown_text` or (`changes`) `change_text`, or written by hand."""
    return (_changed(text, again=True) or {}) if changes else _shown(text, again=True)


def _shown(body: str, *, again: bool) -> dict[str, str]:
    """Return the kept values of an answer by name. The server does not escape values, so one may span several lines."""
    found: dict[str, str] = {}
    name = ""
    for line in body.split("\n"):
        begins = _LINE.fullmatch(line)
        if begins is not None:
            name = begins[1]
            found[name] = begins[2].lstrip(" \t")
        elif line and name:
            found[name] += f"\n{line}"
    return {name: kept(name, value, again=again) for name, value in found.items()}


def _changed(text: str, *, again: bool) -> dict[str, str] | None:
    changed = properties_in(text)
    if changed is None:
        return None
    named = ((name if _NAME.fullmatch(name) else "?" + _digest(name), name, value) for name, value in changed.items())
    return {plain: kept(name, value, again=again) for plain, name, value in named}


def _text(lines: Mapping[str, str]) -> str:
    return "\n".join(f"{name}={value}" for name, value in lines.items())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def statement_of(seq: int, event_id: str, text: str, *, changes: bool) -> Statement:
    """Return the settings in a kept text, without values that the server cannot parse.

    Source: MixAll.properties2Object, which skips a property that throws.
    """
    lines = lines_of(text, changes=changes)
    values: dict[str, Value] = {}
    for option in OPTIONS.values():
        if option.property in lines:
            try:
                values[option.name] = option.value_of(lines[option.property])
            except ValueError:
                continue
    path = lines.get(STORE_PATH)
    has_file = None if path is None else not path.endswith(_DEFAULT_STORE)
    return Statement(seq, event_id, values, changes, has_file)


_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def properties_in(text: str) -> dict[str, str] | None:
    """Return the values that a properties text sets, by name; None if Java refuses it (an unfinished unicode escape).

    The server always reads the bytes of the text as Latin-1.

    Source: java.util.Properties.load; RocketMQ 4.9.7 and 5.4.0 MixAll.string2Properties.
    """
    # Logical lines: without comments and leading blanks, joined where a backslash ends a line.
    lines: list[str] = []
    continued = False
    for natural in _LINE_END.split(text.encode("utf-8", "replace").decode("latin-1")):
        line = natural.lstrip(_BLANKS)
        if not continued and (not line or line[0] in "#!"):
            continue
        begun = lines.pop() if continued else ""
        continued = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        lines.append(begun + (line[:-1] if continued else line))

    found = {}
    for line in lines:
        if re.search(r"(?<!\\)(?:\\\\)*\\u(?![0-9A-Fa-f]{4})", line):
            return None
        key = _KEY.match(line)
        name = key[0] if key else ""
        found[_plain(name)] = _plain(_SEPARATOR.sub("", line[len(name) :], count=1))
    return found


def _plain(text: str) -> str:
    """Return a text without its escapes."""

    def unescaped(found: re.Match[str]) -> str:
        escape = found[1]
        return chr(int(escape[1:], 16)) if len(escape) > 1 else _CHARACTERS.get(escape, escape)

    return _ESCAPE.sub(unescaped, text)


Value = bool | int | str | None
VERSION = "version"
SCAN_PHASE = "scan_phase_us"
"""Delay of a scan's packets after a multiple of the period. No property, but known per process like a setting."""
ADDRESSES = "addresses"
"""Reported beside the settings: the addresses of a process that has several. No replay depends on it."""
UNLIMITED = "unlimited"
LONGEST_MS = 2_147_483_647_000
"""Upper bound of times, 68 years: the longest idle limit that a server accepts. A longer scan period means no scans."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_ENOUGH = 2


class Source(str, Enum):
    """Source of a value."""

    GIVEN = "given"
    STATED = "stated"
    CHANGED = "changed"
    INFERRED = "inferred"
    INHERITED = "inherited"
    DEFAULT = "default"

    @property
    def is_open(self) -> bool:
        """Return whether no evidence shows the value."""
        return self in (Source.INHERITED, Source.DEFAULT)


class Option(NamedTuple):
    """One setting: its field in NamesrvConfig and RocketMQ's property.

    `unit_ms`: milliseconds in one unit of the property, 0 for a boolean. `read_at_start`: the server reads it only at
    its start.
    """

    name: str
    property: str
    unit_ms: int = 0
    in_4x: bool = False
    read_at_start: bool = False

    def value_of(self, text: str) -> Value:
        """Return the value that a property's text sets. Raises ValueError for a text that the server ignores."""
        if not self.unit_ms:
            return text.lower() == "true"
        if _INTEGER.fullmatch(text) is None:
            raise ValueError(f"{self.property}: {text!r} is no number")
        # For Netty's idle handler, 0 or less means no limit.
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
    """Configuration in the server's own terms: as it answered (319), or as it was changed by an accepted request (318).

    `has_file`: whether the server was started with a configuration file; None: not stated.
    """

    seq: int
    event_id: str
    values: Mapping[str, Value]
    changes: bool
    has_file: bool | None = None


class Votes(NamedTuple):
    """Evidence for `value` in the process that started at `life_seq`; `evidence`: the first few event ids."""

    life_seq: int
    name: str
    value: Value
    answers: int
    evidence: tuple[str, ...]


class Life(NamedTuple):
    """One process, from its start or its first event. `version`: as an answer shows it; `version_id`: that answer."""

    from_seq: int
    version: str | None = None
    version_id: str | None = None


class Setting(NamedTuple):
    """A value from `from_seq` on, in the process that started at `life_seq`.

    `restart_value`: the value with which the next process starts, as far as is known.
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

    @property
    def is_in_hindsight(self) -> bool:
        """Return whether a later day shows it, and no day until then."""
        return self.source in (Source.STATED, Source.INFERRED) and not self.answers_for

    @property
    def is_open(self) -> bool:
        """Return whether evidence is still needed."""
        return self.source.is_open or self.is_in_hindsight


@dataclass(frozen=True, slots=True)
class Known:
    """Everything known about one name server's configuration on one day.

    `lives`: its processes in order, first the one that ran when the day began, if any. `before`: settings at the end of
    the day before. `hindsight`: findings of later days, by name and start of the process. `fallback_version`: used if
    no answer shows a version. `shown_before`: settings at the end of the day before that this day itself has shown; `before` has
    them only if this run has settled the day already, as it did.
    """

    lives: Sequence[Life]
    statements: Sequence[Statement] = ()
    votes: Sequence[Votes] = ()
    given: Mapping[str, Value] = field(default_factory=dict)
    before: Mapping[str, Setting] = field(default_factory=dict)
    hindsight: Mapping[tuple[str, int], Setting] = field(default_factory=dict)
    fallback_version: str = "4.9.7"
    shown_before: Mapping[str, Setting] = field(default_factory=dict)


def text_of(value: Value) -> str:
    """Return a value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return UNLIMITED if value is None else str(value)


def value_of(name: str, text: str) -> Value:
    """Return the value of setting `name` from its text by `text_of`."""
    if name == VERSION:
        return text
    if name == SCAN_PHASE:
        return int(text)
    if not OPTIONS[name].unit_ms:
        return text == "true"
    return None if text == UNLIMITED else int(text)


def default_of(name: str, profile: Profile) -> Value:
    """Return RocketMQ's default value of setting `name`."""
    if name == "scan_period_ms":
        return profile.scan_period_ms
    return getattr(NamesrvConfig(), name)  # type: ignore[no-any-return]


def namesrv_of(settings: Sequence[Setting], from_seq: int = 0) -> Namesrv:
    """Return the name server with these settings, as at `from_seq` or first seen, and its later changes."""
    ordered = sorted(settings, key=lambda setting: (setting.from_seq, setting.name != VERSION))
    first_seq = max(from_seq, ordered[0].from_seq)
    values: dict[str, Any] = {}
    spans: dict[int, Namesrv] = {}
    for setting in ordered:
        if setting.name == VERSION:
            # A new process keeps none of the old one's values.
            profile, values = profile_named(str(setting.value)), {}
        elif setting.name != SCAN_PHASE:
            values[setting.name] = setting.value
        spans[max(first_seq, setting.from_seq)] = Namesrv(profile, NamesrvConfig(**values))
    (_, base), *later = spans.items()
    return Namesrv(base.profile, base.config, tuple(later))


# -- which value held when ----------------------------------------------------------------------------------------------


def settle(known: Known) -> list[Setting]:
    """Return every setting of the day by process, each from the position at which it became valid."""
    latest = dict(known.before)
    found: list[Setting] = []
    for life, until_seq in zip(known.lives, [*(life.from_seq for life in known.lives[1:]), None], strict=True):
        stated_in = [s for s in known.statements if life.from_seq <= s.seq and (until_seq is None or s.seq < until_seq)]
        seen = None
        if life.version is not None:
            ids = () if life.version_id is None else (life.version_id,)
            seen = _started(VERSION, life.version, Source.STATED, life, ids, (1, 0))
        version = _at_start(known, life, VERSION, seen, latest.get(VERSION), known.fallback_version)
        profile = profile_named(str(version.value))
        starts = []
        for option in OPTIONS.values():
            if option.in_4x or profile.live_key_has_cluster:
                first = next((statement for statement in stated_in if option.name in statement.values), None)
                stated = None
                if first is not None and not first.changes:  # the server's own statement, before any change
                    value = first.values[option.name]
                    stated = _started(option.name, value, Source.STATED, life, (first.event_id,), (1, 0))
                default = default_of(option.name, profile)
                starts.append(_at_start(known, life, option.name, stated, latest.get(option.name), default))
        # A change is written to the configuration file (`-c`), which the next start reads. Without one, it goes to a file
        # that no start reads. The process states whether it has one; otherwise any value but the default suggests it.
        has_files = [statement.has_file for statement in stated_in if statement.has_file is not None]
        has_file = (
            has_files[-1]
            if has_files
            else any(one.source is not Source.CHANGED and one.value != default_of(one.name, profile) for one in starts)
        )
        settings = [version]
        for start in starts:
            settings += _through(start, stated_in, has_file=has_file)
        settings += _phase(known, life, latest.get(SCAN_PHASE))
        latest.update((setting.name, setting) for setting in settings)
        found += settings
    return found


def reconsidered(settled: Iterable[Setting], before: Mapping[str, Setting]) -> list[Setting]:
    """Return the settings whose value since the start of their process turns out to differ from the one assumed before.

    Earlier days of that process were replayed with the wrong value, or without the phase of its scans. A changed phase,
    however, comes from a clock that was set, and does not concern those days. What they know in hindsight, they are to know as
    the first day that shows it does.
    """
    return [
        setting
        for setting in settled
        if (old := before.get(VERSION if setting.name == SCAN_PHASE else setting.name)) is not None
        and (old.life_seq, old.from_seq) == (setting.life_seq, setting.from_seq)
        and (
            in_hindsight(setting) != mine
            if (mine := before.get(setting.name)) is not None and mine.is_in_hindsight
            else SCAN_PHASE not in before
            if setting.name == SCAN_PHASE
            else old.value != setting.value
        )
    ]


def in_hindsight(setting: Setting) -> Setting:
    """Return what earlier days of the process know of a setting that a later day shows: how often it does is not their affair."""
    return setting._replace(evidence=setting.evidence[:1], answers_for=0, answers_against=0)


def _at_start(
    known: Known, life: Life, name: str, stated: Setting | None, last: Setting | None, default: Value
) -> Setting:
    """Return the value at the start of the process, or of the day if it began earlier, from the first source that knows."""
    last = last if last is not None and last.source is not Source.GIVEN else None
    mine = last if last is not None and last.life_seq == life.from_seq else None
    voted = _voted(known.votes, name, life)
    mine = _anew(mine, stated, voted)
    later = known.hindsight.get((name, life.from_seq), mine if mine is not None and mine.is_in_hindsight else None)
    in_order = (
        mine if mine is not None and mine.source is Source.CHANGED else None,
        _started(name, known.given[name], Source.GIVEN, life) if name in known.given else None,
        mine if mine is not None and mine.source is Source.STATED and not mine.is_open else None,
        stated,
        later if later is not None and later.source is Source.STATED else None,
        mine if mine is not None and not mine.is_open else None,
        voted,
        later,
        mine,
        None if last is None else _inherited(last, life),
        _started(name, default, Source.DEFAULT, life),
    )
    found, *others = (one for one in in_order if one is not None)
    # A later day that shows what is taken anyway tells nothing: whether it is asked depends on other settings.
    otherwise = next((one for one in others if one is not later), found)
    return otherwise if found is later and found is not mine and otherwise.value == found.value else found


def _anew(mine: Setting | None, *found: Setting | None) -> Setting | None:
    """Return `mine`, known from before, or one `found` that says the same by the same event: it counts all of the day's."""
    same = (of for of in found if of is not None and mine is not None and in_hindsight(of) == in_hindsight(mine))
    return next(same, mine)


def _phase(known: Known, life: Life, last: Setting | None) -> list[Setting]:
    """Return the phase of the process's scans, if it is known.

    A phase that was shown stays, unless two or more closes of the day agree on another one and none supports this one.
    """
    mine = last if last is not None and last.life_seq == life.from_seq else None
    cast = [v for v in known.votes if (v.name, v.life_seq) == (SCAN_PHASE, life.from_seq)]
    voted = _voted(cast, SCAN_PHASE, life)
    mine = _anew(mine, voted)
    if mine is not None and not mine.is_open:
        is_enough = voted is not None and voted.answers_for >= _ENOUGH and mine.value not in (v.value for v in cast)
        voted = voted if is_enough else None
    found = voted or mine or known.hindsight.get((SCAN_PHASE, life.from_seq))
    return [] if found is None else [found]


def _voted(votes: Sequence[Votes], name: str, life: Life) -> Setting | None:
    """Return the value with the most support; None for a tie."""
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
    """Return a setting with which a process started; `answers`: number for it, and against it."""
    return Setting(name, value, source, life.from_seq, life.from_seq, value, evidence, *answers)


def _inherited(last: Setting, life: Life) -> Setting:
    """Return the setting that a new process inherits: the value in the file, or with which the old process started.

    A change at run time that went into no file is lost; the value before it has no evidence and counts as default.
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


def _through(start: Setting, statements: Sequence[Statement], *, has_file: bool) -> list[Setting]:
    """Return the values of one setting during the life of a process, from its start, changes and later statements."""
    values = [start]
    for statement in statements:
        now = values[-1]
        if start.name not in statement.values or statement.seq <= now.from_seq:
            continue
        value = statement.values[start.name]
        following = now._replace(
            value=value, from_seq=statement.seq, evidence=(statement.event_id,), answers_for=1, answers_against=0
        )
        if statement.changes:
            restart_value = value if has_file else now.restart_value
            if OPTIONS[start.name].read_at_start:
                values[-1] = now._replace(restart_value=restart_value)
            else:
                values.append(following._replace(source=Source.CHANGED, restart_value=restart_value))
        elif value != now.value and now.source is Source.GIVEN:
            values[-1] = now._replace(answers_against=now.answers_against + 1)
        elif value != now.value:
            # It was changed by a request that was not recorded.
            values.append(following._replace(source=Source.STATED, restart_value=value))
    return values
