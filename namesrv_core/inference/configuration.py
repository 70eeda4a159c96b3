"""The configuration a name server reports (GET_NAMESRV_CONFIG), with secrets removed.

What is kept is text, one `name=value` a line, in the order of the answers. Values are kept of RocketMQ's own numbers and
switches; of all others (paths, and whatever an operator's file has beside) stands a digest that is too short to tell them, and
long enough to show that one has changed.

Source: RocketMQ 4.9.7 and 5.4.0 Configuration, MixAll.properties2Object, MixAll.properties2String, NamesrvConfig,
NettyServerConfig.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from namesrv_core.asking.requests import java_boolean, java_int, java_long
from namesrv_core.inference.settings import OPTIONS, Statement, Value

STORE_PATH = "configStorePath"
"""Kept, too: it tells whether the server was started with a configuration file."""
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
    if again and _DIGEST.fullmatch(value):
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
    named = ((name if _NAME.fullmatch(name) else "?" + _digest(name), name, value) for name, value in told.items())
    return {plain: kept(name, value, again=again) for plain, name, value in named}


def _text(lines: Mapping[str, str]) -> str:
    return "\n".join(f"{name}={value}" for name, value in lines.items())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def statement_of(seq: int, event_id: str, text: str, *, changes: bool) -> Statement:
    """Return what a properties text says about the settings; a value that the server cannot parse says nothing.

    Source: MixAll.properties2Object, which passes over whatever throws.
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
