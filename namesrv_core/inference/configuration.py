"""The configuration a name server reports (GET_NAMESRV_CONFIG), with secrets removed.

A configuration is text, one `name=value` a line, in the order of the answers. Values are kept of RocketMQ's own numbers and
switches; of all others (paths, and whatever an operator's file has beside) stands a digest that is too short to tell them, and
long enough to show that one has changed. `?` is what is not known: as a value, or as the first line, where properties may be
missing.

Source: RocketMQ 4.9.7 and 5.4.0 Configuration, MixAll.properties2Object, MixAll.properties2String, NamesrvConfig,
NettyServerConfig. The data version of Configuration counts changes; no answer of a name server shows it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from namesrv_core.asking.requests import java_boolean, java_int, java_long
from namesrv_core.inference.settings import CONFIGURATION, OPTIONS, VERSION, Life, Setting, Source, Statement, Value

STORE_PATH = "configStorePath"
"""Kept, too: it tells whether the server was started with a configuration file."""
UNKNOWN = "?"
# Where a server without a configuration file of its own (`-c`) writes its configuration; no start reads it from there.
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
_EVERYWHERE = frozenset({STORE_PATH, "kvConfigPath", "listenPort"})
"""Properties that every name server has and shows."""
_LINE = re.compile(r"[ \t]*(\?[0-9a-f]{8}|[\w.-]{1,200})[ \t]*=(.*)", re.ASCII | re.DOTALL)
_NAME = re.compile(r"\?[0-9a-f]{8}|[\w.-]{1,200}", re.ASCII)
_DIGEST = re.compile(r"#[0-9a-f]{8}")


def kept(name: str, value: str, *, again: bool = False) -> str:
    """Return what is kept of a value; of a number or a switch what the server makes of it. `again`: a digest stays one."""
    is_number = name in _INTEGERS or name in _LONGS
    if is_number and (number := (java_int if name in _INTEGERS else java_long)(value)) is not None:
        return str(number)
    if name in _SWITCHES:
        return "true" if java_boolean(value) else "false"
    if name == STORE_PATH and "\n" not in value:
        return value.strip().replace("\\", "/")
    if again and (_DIGEST.fullmatch(value) or value == UNKNOWN):
        return value
    # 5.x takes blanks off the ends, 4.x shows them.
    return "#" + _digest(f"{name}\n{value.strip()}")


def shown_text(body: str, *, again: bool = False) -> str:
    """Return what is kept of an answer to GET_NAMESRV_CONFIG. `again`: of something that has been read before may be kept."""
    return _text(_shown(body, again=again))


def told_text(text: str, *, again: bool = False) -> str:
    """Return what is kept of the body of UPDATE_NAMESRV_CONFIG: a text of properties that sets the same names."""
    told = _told(text, again=again)
    return "\\u" if told is None else _text(told)  # as unreadable as the text was


def lines_of(text: str, *, changes: bool) -> dict[str, str]:
    """Return by name what `shown_text` or, if it `changes` something, `told_text` have kept. It may have been written by hand."""
    return (_told(text, again=True) or {}) if changes else _shown(text, again=True)


def _shown(body: str, *, again: bool) -> dict[str, str]:
    """Return by name what is kept of an answer. The server writes values as they are: one may go on in the next line."""
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


def _told(text: str, *, again: bool) -> dict[str, str] | None:
    told = properties_in(text)
    if told is None:
        return None
    named = ((name if _NAME.fullmatch(name) else UNKNOWN + _digest(name), name, value) for name, value in told.items())
    return {plain: kept(name, value, again=again) for plain, name, value in named}


def _text(lines: Mapping[str, str]) -> str:
    return "\n".join(f"{name}={value}" for name, value in lines.items())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


class Configuration(NamedTuple):
    """The properties of a process, by name, in order. `is_whole`: it has no others."""

    lines: Mapping[str, str]
    is_whole: bool = True

    @classmethod
    def of(cls, text: str) -> Configuration:
        """Return the configuration that `text` wrote."""
        lines = text.split("\n")
        is_whole = lines[0] != UNKNOWN
        parts = (line.partition("=") for line in lines if "=" in line)
        return cls({name: value for name, _, value in parts}, is_whole)

    @property
    def text(self) -> str:
        """Return it as text."""
        return "\n".join([*(() if self.is_whole else (UNKNOWN,)), *(f"{n}={v}" for n, v in self.lines.items())])

    def after_answer(self, lines: Mapping[str, str]) -> Configuration:
        """Return what is known after an answer; one that somebody wrote down may have few of its lines."""
        if lines.keys() >= _EVERYWHERE:
            return Configuration(lines)
        return Configuration({**self.lines, **lines}, self.is_whole)

    def after_change(self, lines: Mapping[str, str], *, is_certain: bool = True) -> Configuration:
        """Return what is known after a change: properties that the server has not are passed over, and what is no number."""
        changed = {
            name: value if is_certain else UNKNOWN
            for name, value in lines.items()
            if (name in self.lines or not self.is_whole)
            and not (name in _INTEGERS | _LONGS and value.startswith("#"))
            and (is_certain or name not in self.lines or self.lines[name] != value)
        }
        return Configuration({**self.lines, **changed}, self.is_whole)

    def compared(self, answered: Mapping[str, str]) -> Literal["equal", "reordered", "open", "other"]:
        """Return how an answer compares: open, where it differs in nothing that is known."""
        if self.is_whole and answered == self.lines:
            return "equal" if list(answered) == list(self.lines) else "reordered"
        is_known = {name: value for name, value in self.lines.items() if value != UNKNOWN}
        if self.is_whole and answered.keys() != self.lines.keys():
            return "other"
        differs = any(answered.get(name, value) != value for name, value in is_known.items())
        return "other" if differs else "open"


NOTHING_KNOWN = Configuration({}, is_whole=False)


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


def configurations(
    life: Life, said: Sequence[Statement], before: Mapping[str, Setting], version: Setting, *, has_file: bool
) -> list[Setting]:
    """Return what was known of all properties through the life of a process; each holds from after what says so.

    A process starts with what the one before had in its file, or had itself started with, if it is of the same release: that is
    a guess, as is everything after a gap.
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
    """Return what is known after a statement; None: nothing else than before."""
    if not statement.is_certain and not statement.changes:
        return None if now is None else now._replace(source=Source.INHERITED, from_seq=statement.seq)
    known = restart = NOTHING_KNOWN
    if now is not None:
        known, restart = Configuration.of(str(now.value)), Configuration.of(str(now.restart_value))
    is_guess = now is not None and now.source is Source.INHERITED
    if statement.changes:
        after = known.after_change(statement.lines, is_certain=statement.is_certain)
        source = Source.INHERITED if is_guess else Source.CHANGED
        # What goes into no file is not there at the next start.
        restart = after if has_file else restart
    else:
        after, source = known.after_answer(statement.lines), Source.STATED
        # What a change had set before the first answer hides what was there at the start, and will be again.
        restart = after.after_change({} if has_file or known.is_whole else dict.fromkeys(known.lines, UNKNOWN))
    if after == known and (statement.changes or not is_guess):
        return None
    own = (CONFIGURATION, after.text, source, statement.seq, life.from_seq)
    return Setting(*own, restart.text, (statement.event_id,), 1)


_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = " \t\f"
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def properties_in(text: str) -> dict[str, str] | None:
    """Return the values that a properties text sets, by name; None if Java refuses it (an unfinished unicode escape).

    The server reads the bytes of the text as Latin-1, whatever they are.

    Source: java.util.Properties.load; RocketMQ 4.9.7 and 5.4.0 MixAll.string2Properties.
    """
    # Lines that set something: without comments, leading blanks, and breaks after a backslash.
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
