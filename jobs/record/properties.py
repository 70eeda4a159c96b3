"""A name server's properties: those of its file, RocketMQ's defaults for all others, and what of them is used here.

Source: RocketMQ 4.9.7 and 5.3.3 NamesrvConfig, NettyServerConfig, NettySystemConfig, Configuration, MixAll.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

from jobs.errors import UsageError
from namesrv_core.asking.requests import java_boolean, java_int
from namesrv_core.inference.settings import OPTIONS, properties_in
from namesrv_core.machine.java_map import JavaMap, string_map
from namesrv_core.machine.profile import Namesrv, NamesrvConfig, Profile

_OLD: Final[dict[str, str]] = {
    "rocketmqHome": "",
    "kvConfigPath": "",
    "configStorePath": "",
    "productEnvName": "center",
    "clusterTest": "false",
    "orderMessageEnable": "false",
    "listenPort": "9876",
    "serverWorkerThreads": "8",
    "serverCallbackExecutorThreads": "0",
    "serverSelectorThreads": "3",
    "serverOnewaySemaphoreValue": "256",
    "serverAsyncSemaphoreValue": "64",
    "serverChannelMaxIdleTimeSeconds": "120",
    "serverSocketSndBufSize": "0",
    "serverSocketRcvBufSize": "0",
    "writeBufferHighWaterMark": "0",
    "writeBufferLowWaterMark": "0",
    "serverSocketBacklog": "1024",
    "serverPooledByteBufAllocatorEnable": "true",
    "useEpollNativeSelector": "false",
}
_NEW: Final[dict[str, str]] = {
    **_OLD,
    "returnOrderTopicConfigToBroker": "true",
    "clientRequestThreadPoolNums": "8",
    "defaultThreadPoolNums": "16",
    "clientRequestThreadPoolQueueCapacity": "50000",
    "defaultThreadPoolQueueCapacity": "10000",
    "scanNotActiveBrokerInterval": "5000",
    "unRegisterBrokerQueueCapacity": "3000",
    "supportActingMaster": "false",
    "enableAllTopicList": "true",
    "enableTopicList": "true",
    "notifyMinBrokerIdChanged": "false",
    "enableControllerInNamesrv": "false",
    "needWaitForService": "false",
    "waitSecondsForService": "45",
    "deleteTopicWithBrokerRegistration": "false",
    "configBlackList": "configBlackList;configStorePath;kvConfigPath",
    "bindAddress": "0.0.0.0",  # noqa: S104  RocketMQ's default, as text
    "serverNettyWorkerGroupEnable": "true",
    "enableShutdownGracefully": "false",
    "shutdownWaitTimeSeconds": "30",
}
_USED: Final = frozenset(
    {
        *(option.property for option in OPTIONS.values()),
        *("rocketmqHome", "kvConfigPath", "configStorePath", "listenPort", "bindAddress"),
        *("needWaitForService", "waitSecondsForService", "unRegisterBrokerQueueCapacity"),
    }
)


class Properties(NamedTuple):
    """What a name server is configured with. `lines`: all properties, those of the file in front of the defaults.

    `kv_path`: where KV entries are kept. `wait_ms`: for so long after the start no route is answered.
    `notes`: sentences about what of the file is not used.
    """

    namesrv: Namesrv
    lines: dict[str, str]
    kv_path: Path
    wait_ms: int
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return what it answers when it is asked about its configuration: 5.x in order of name, 4.x in that of its map."""
        of_5x = self.namesrv.profile.has_topic_registration
        in_order = sorted(self.lines.items()) if of_5x else _as_in_a_map(self.lines)
        return "".join(f"{name}={value}\n" for name, value in in_order)


def properties_of(profile: Profile, path: Path | None, address: tuple[str, int], kv_path: Path) -> Properties:
    """Return the properties of a name server of a release at an address. `path`: its file; `kv_path`: unless that says another.

    Raises UsageError for a file that cannot be read, and for what a name server of the release does not start with.
    """
    of_5x = profile.has_topic_registration
    defaults = _NEW if of_5x else _OLD
    read = {} if path is None else _read_file(path)
    stored = str(path) if path is not None else str(Path("~/namesrv/namesrv.properties").expanduser())
    host, port = address
    own = {"kvConfigPath": read.get("kvConfigPath", str(kv_path)), "configStorePath": stored, "listenPort": str(port)}
    own |= {"bindAddress": host} if of_5x else {}
    lines = {name: value for name, value in {**defaults, **read, **own}.items() if value or name != "rocketmqHome"}
    notes = [
        f"property {name} {'changes nothing here' if name in defaults else f'is none of {profile.name}'}"
        for name, value in read.items()
        if not (name in _USED and (of_5x or name in _OLD)) and value != defaults.get(name)
    ]
    notes += [
        f"property {name}={read[name]} is not used: --listen says {own[name]}"
        for name in ("listenPort", "bindAddress")
        if name in read and read[name] != own.get(name, read[name])
    ]
    for name in ("clusterTest", "enableControllerInNamesrv"):
        if java_boolean(read.get(name)):
            raise UsageError(f"property {name} of {path}: there is no such name server here")
    values: dict[str, Any] = {}
    for option in OPTIONS.values():
        if option.property in read and (option.in_4x or of_5x):
            try:
                values[option.name] = option.value_of(read[option.property])
            except ValueError as error:
                notes.append(f"{error}: the default holds")
                lines[option.property] = defaults[option.property]
    capacity = java_int(lines.get("unRegisterBrokerQueueCapacity"))
    if capacity:
        values["un_register_broker_queue_capacity"] = capacity
    waits = java_boolean(lines.get("needWaitForService"))
    wait_ms = 1_000 * (java_int(lines.get("waitSecondsForService")) or 0) if waits else 0
    return Properties(Namesrv(profile, NamesrvConfig(**values)), lines, Path(own["kvConfigPath"]), wait_ms, (*notes,))


def _read_file(path: Path) -> dict[str, str]:
    try:
        read = properties_in(path.read_bytes().decode("utf-8", "replace"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    if read is None:
        raise UsageError(f"{path}: it has an unfinished escape (\\u): a name server does not start with it")
    return read


def _as_in_a_map(lines: dict[str, str]) -> list[tuple[str, str]]:
    """Return properties in the order of Java's: the name server's were put first, then Netty's, then all others of the file."""
    names = list(_OLD)
    begin = names.index("listenPort")
    put: JavaMap[str | None, str] = string_map(concurrent=True)
    for part in (names[:begin], names[begin:], [name for name in lines if name not in _OLD]):
        entries = ((name, lines[name]) for name in part if name in lines)
        for name, value in string_map(entries=entries, concurrent=True).java_items():
            put.put(name, value)
    return [(name or "", value) for name, value in put.java_items()]
