"""What messages in a name server's own log say, of all releases from 4.3.0 to 5.5.0.

Source: RouteInfoManager, KVConfigManager, DefaultRequestProcessor, NamesrvStartup, NettyRemotingServer; of a message only what it
says is taken, nothing that it lets one suppose.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from re import Match
from typing import Final, NamedTuple

from namesrv_core.machine.events import LoggedRow
from namesrv_core.machine.past import ANY
from namesrv_core.machine.step import CHANNEL_LOST, LEASE_ENDED
from namesrv_core.machine.tables import UNRECORDED, BrokerLiveInfo, KvValue, QueueData
from namesrv_wire.errors import MAX_NAME_CHARS, DecodeError, Reason
from namesrv_wire.json_text import require_short

ANY_CALL: Final = ""
"""Stands for the operation of lines that several write: that of the lines before it in its thread, or `UNREGISTERED`."""
UNREGISTERED: Final = "unregister_broker"
UNREGISTERED_5X: Final = "unregister_batch"
"""In 5.x the lines do not say whether a broker asked for it, or its connection was lost."""
Rows = list[LoggedRow]


class Kind(NamedTuple):
    """One kind of message: how it begins, and what it is as a whole. `begins`: it is the first that its call writes."""

    prefix: str
    form: re.Pattern[str]
    operation: str
    rows: Callable[[Match[str]], Rows]
    begins: bool = False


def _kind(operation: str, prefix: str, rest: str, rows: Callable[[Match[str]], Rows], *, begins: bool = False) -> Kind:
    return Kind(prefix, re.compile(re.escape(prefix) + rest, re.DOTALL), operation, rows, begins)


_MAX_MESSAGE: Final = 8_192
MAX_ROUTE: Final = 1 << 20
"""How long messages may be: those with a topic's whole route, whose forms are made for it, and all others."""

_QUEUES: Final = re.compile(
    rf"QueueData \[brokerName=(.{{0,{MAX_NAME_CHARS}}}?), readQueueNums=(-?\d{{1,10}}), writeQueueNums=(-?\d{{1,10}}),"
    r" perm=(-?\d{1,10}), topicS(?:yn|ys)Flag=(-?\d{1,10})\]",
    re.DOTALL | re.ASCII,
)
_QD: Final = r"QueueData \[brokerName=[^\n]*\]"
_BROKER: Final = r"(?:BrokerIdentityInfo \[clusterName=(?P<cluster>.*), brokerAddr=(?P<addr5>.*)\]|(?P<addr4>\S+))"


def _queues(topic: str, text: str, *, is_new: bool) -> Rows:
    """Return the rows of the queue data in a text. Raises `DecodeError` if there are none."""
    found = [*_QUEUES.finditer(text)]
    if not found:
        raise DecodeError(Reason.BAD_LINE, "queue data that cannot be read")
    return [LoggedRow("topic_queue", topic, one[1], QueueData(*map(int, one.groups()[1:])), is_new) for one in found]


def _new_queues(found: Match[str]) -> Rows:
    return _queues(found["topic"], found["queues"], is_new=True)


def _gone(topic: str, text: str) -> Rows:
    return [row._replace(value=None) for row in _queues(topic, text, is_new=True)] if text != "null" else []


def _group_gone(found: Match[str]) -> Rows:
    return [LoggedRow("broker_addr", found["name"], None), LoggedRow("topic_queue", ANY, found["name"])]


def _cluster_gone(found: Match[str]) -> Rows:
    return [LoggedRow("cluster_addr", found["of"], ANY)]


def _live(found: Match[str], value: BrokerLiveInfo | None = None) -> Rows:
    return [LoggedRow("broker_live", found["cluster"], found["addr5"] or found["addr4"], value, is_new=True)]


def _master(found: Match[str]) -> Rows:
    cluster, name = found["of"], found["name"]
    member = LoggedRow("broker_addr", name, None, (cluster, found["addr"]), is_new=found["old"] == "null")
    return [LoggedRow("cluster_addr", cluster, name, value=True), member]


def _topic_of_broker_gone(found: Match[str]) -> Rows:
    """Return the rows of a broker's topic that is deleted; the broker's name and the topic precede its queue data."""
    (row,) = _gone("", found["queues"])
    name, topic = str(row.other), found["both"][len(str(row.other)) + 1 :]
    if found["both"] != f"{name} {topic}":
        raise DecodeError(Reason.BAD_LINE, f"its queue data are not those of {found['both'][:60]!r}")
    return [row._replace(one=topic)]


def _topic_gone(found: Match[str]) -> Rows:
    return [LoggedRow("topic_queue", found["topic"], ANY)]


_REGISTER: Final = "register_broker"
_OF_CHANNEL: Final = r", because channel destroyed"
# A route is long: whether it ends as it should is looked at first, and once, not from wherever its list may begin.
KINDS: Final = (
    _kind(
        _REGISTER,
        "cluster [",
        r"(?P<of>.*)\] brokerName \[(?P<name>.*)\] master address change from (?P<old>\S+) to (?P<addr>\S+)",
        _master,
        begins=True,
    ),
    _kind(_REGISTER, "new topic registered, ", rf"(?P<topic>.*) (?P<queues>{_QD})", _new_queues),
    _kind(_REGISTER, "topic changed, ", rf"(?P<topic>.*) OLD: {_QD} NEW: (?P<queues>{_QD})", _new_queues),
    _kind(
        _REGISTER,
        "new broker registered, ",
        rf"{_BROKER} HA(?:Server|Service): (?P<ha>\S*)",
        lambda m: _live(m, BrokerLiveInfo(None, None, UNRECORDED, None if m["ha"] == "null" else m["ha"])),
    ),
    _kind(
        UNREGISTERED, "unregisterBroker, remove from brokerLiveTable ", rf"(?:OK|Failed), {_BROKER}", _live, begins=True
    ),
    _kind(
        ANY_CALL,
        "unregisterBroker, remove addr from brokerAddrTable ",
        rf"(?P<done>OK|Failed), {_BROKER}",
        lambda m: [LoggedRow("address", m["addr5"] or m["addr4"], None)] if m["done"] == "OK" else [],
    ),
    _kind(ANY_CALL, "unregisterBroker, remove name from brokerAddrTable OK, ", r"(?P<name>.*)", _group_gone),
    _kind(
        ANY_CALL,
        "unregisterBroker, remove name from clusterAddrTable ",
        r"(?P<done>OK|Failed), (?P<name>.*)",
        lambda m: [LoggedRow("cluster_addr", ANY, m["name"])] if m["done"] == "OK" else [],
    ),
    _kind(ANY_CALL, "unregisterBroker, remove cluster from clusterAddrTable ", r"(?P<of>.*)", _cluster_gone),
    _kind(
        ANY_CALL,
        "removeTopicByBrokerName, remove one broker's topic ",
        rf"(?P<topic>.*) (?P<queues>{_QD}|null)",
        lambda m: _gone(m["topic"], m["queues"]),
    ),
    _kind(ANY_CALL, "removeTopicByBrokerName, remove the topic all queue ", r"(?P<topic>.*)", _topic_gone),
    # In 5.x an unregistration follows.
    _kind(
        LEASE_ENDED,
        "The broker channel expired, ",
        rf"{_BROKER} -?\d+ms",
        lambda m: _live(m) if m["addr4"] else [],
        begins=True,
    ),
    _kind(
        CHANNEL_LOST,
        "the broker's channel destroyed, ",
        r"(?:(?P<cluster>(?!))|(?P<addr5>(?!))|(?P<addr4>\S+), clean it's data structure at once|submit .*)",
        lambda m: _live(m) if m["addr4"] else [],
        begins=True,
    ),
    _kind(
        CHANNEL_LOST,
        "remove brokerAddr[",
        rf"-?\d+, (?P<addr>\S+)\] from brokerAddrTable{_OF_CHANNEL}",
        lambda m: [LoggedRow("address", m["addr"], None)],
    ),
    _kind(
        CHANNEL_LOST,
        "remove brokerName[",
        rf"(?P<name>.*)\](?: from brokerAddrTable|, clusterName\[(?P<of>.*)\] from clusterAddrTable){_OF_CHANNEL}",
        lambda m: _group_gone(m) if m["of"] is None else [LoggedRow("cluster_addr", m["of"], m["name"])],
    ),
    _kind(
        CHANNEL_LOST,
        "remove the clusterName[",
        rf"(?P<of>.*)\] from clusterAddrTable{_OF_CHANNEL} and no broker in this cluster",
        _cluster_gone,
    ),
    _kind(
        CHANNEL_LOST,
        "remove topic[",
        rf"(?:(?P<topic>.*) (?P<queues>{_QD}|null)\],|(?P<all>.*)\] all queue,) from topicQueueTable{_OF_CHANNEL}",
        lambda m: [LoggedRow("topic_queue", m["all"], ANY)] if m["queues"] is None else _gone(m["topic"], m["queues"]),
    ),
    _kind(
        "delete_topic",
        "deleteTopic, remove one broker's topic ",
        rf"(?P<both>.*) (?P<queues>{_QD})",
        _topic_of_broker_gone,
    ),
    _kind(
        "delete_topic",
        "deleteTopic, remove the topic all queue ",
        r"(?:\S* )?(?P<topic>\S+)|.*",
        lambda m: _topic_gone(m) if m["topic"] else [],
    ),
    _kind(
        "register_topic",
        "Register topic route:",
        rf"(?=.*\]\Z)(?P<topic>.{{0,{MAX_NAME_CHARS}}}), \[(?P<queues>QueueData .*)\]",
        _new_queues,
        begins=True,
    ),
    _kind(
        "register_topic",
        "Topic route already exist.",
        rf"(?=.*\}}\Z)(?P<topic>.{{0,{MAX_NAME_CHARS}}}?), \{{(?P<queues>.*)\}}",
        lambda m: _queues(m["topic"], m["queues"], is_new=False),
        begins=True,
    ),
    _kind(
        "kv_config_told",
        "configTable NS: ",
        r"(?P<space>.*) Key: (?P<key>.*) Value: (?P<value>.*)",
        lambda m: [LoggedRow("kv_config", m["space"], m["key"], KvValue(m["value"]))],
    ),
)
"""What changes tables, or tells of them."""
_PREFIXES: Final = re.compile("|".join(f"({re.escape(kind.prefix)})" for kind in KINDS))


def kind_of(message: str) -> Kind | None:
    """Return of what kind a message begins to be; None: of none that says something of a table."""
    found = _PREFIXES.match(message)
    return None if found is None else KINDS[(found.lastindex or 1) - 1]


def require_bounded(message: str) -> str:
    """Return a message that is no longer than one is. Raises `DecodeError` for another one."""
    most = MAX_ROUTE if "opic route" in message[:24] else _MAX_MESSAGE
    if len(message) > most:
        raise DecodeError(Reason.LINE_TOO_LONG, f"{len(message)} characters, at most {most}")
    return message


def rows_of(kind: Kind, message: str) -> tuple[Match[str], Rows]:
    """Return what a message of a kind says. Raises `DecodeError` if it is cut, or is none of its kind after all."""
    found = kind.form.fullmatch(message)
    if found is None:
        raise DecodeError(
            Reason.BAD_LINE, f"{kind.prefix.strip()!r}: it goes on otherwise than a name server writes it"
        )
    for name, text in found.groupdict().items():
        require_short(name, text if name not in ("queues", "value", "both") else None)
    return found, kind.rows(found)


def logged(properties: str | None) -> tuple[str, tuple[LoggedRow, ...]]:
    """Return the operation and the rows of the messages of one call, each on a line behind it. Raises `DecodeError`."""
    operation, *messages = (properties or "").split("\n")
    rows = Rows()
    for message in messages:
        kind = kind_of(require_bounded(message))
        if kind is None:
            raise DecodeError(Reason.BAD_LINE, f"{message[:60]!r}: it says nothing of a table")
        rows += rows_of(kind, message)[1]
    return operation, tuple(rows)
