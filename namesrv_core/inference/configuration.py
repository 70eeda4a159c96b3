"""The configuration that a name server reports (GET_NAMESRV_CONFIG), with secrets removed.

The kept text has one `name=value` a line, in the order of the answer. It holds the values of RocketMQ's own numbers and
switches. Any other value (a path, or an operator's own property) is replaced by a digest: too short to recover the
value, long enough to show that it changed.

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


def told_text(text: str, *, again: bool = False) -> str:
    """Return the kept text of the body of UPDATE_NAMESRV_CONFIG: properties with the same names."""
    told = _told(text, again=again)
    return "\\u" if told is None else _text(told)  # unreadable, like `text`


def lines_of(text: str, *, changes: bool) -> dict[str, str]:
    """Return the values by name of a text kept by `shown_text` or (`changes`) `told_text`, or written by hand."""
    return (_told(text, again=True) or {}) if changes else _shown(text, again=True)


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
