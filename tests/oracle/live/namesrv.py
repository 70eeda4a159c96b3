"""A real name server: RocketMQ's own, as a process of its own, configured at random."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path
from typing import Any

from tests.oracle.jvm import BRIEF, JvmFailedError, jars
from tests.oracle.live.namespaces import command

_LOGBACK = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{}/namesrv.log</file><encoder><pattern>%d{{HH:mm:ss.SSS}} %t %p %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"""


def random_conf(chance: random.Random, version: str) -> dict[str, Any]:
    """Return a configuration: what changes what a name server holds or answers, and short times."""
    switches = ["orderMessageEnable"]
    conf: dict[str, Any] = {"serverChannelMaxIdleTimeSeconds": chance.choice((15, 30, 120))}
    if version.startswith("5."):
        switches += ["supportActingMaster", "deleteTopicWithBrokerRegistration", "notifyMinBrokerIdChanged"]
        switches += ["returnOrderTopicConfigToBroker"]
        if chance.random() < 0.4:
            conf["scanNotActiveBrokerInterval"] = chance.choice((2_000, 5_000, 7_000))
        if chance.random() < 0.2:
            conf["enableTopicList"] = "false"
    return conf | {name: chance.choice(("true", "false")) for name in switches}


def classpath(version: str) -> str:
    """Return the classpath of a release's name server, fetched the first time. Raises JvmUnavailableError if that fails."""
    return ":".join(map(str, jars(f"org.apache.rocketmq:rocketmq-namesrv:{version}")))


class NameServer:
    """One name server, which may be stopped, killed, frozen and started again; its files are in `home`.

    `addresses`: where it is reached, over IPv4 and IPv6, in `namespace`.
    """

    def __init__(
        self,
        home: Path,
        port: int,
        version: str,
        conf: dict[str, Any],
        *,
        addresses: tuple[str, str] = ("127.0.0.1", "::1"),
        namespace: str | None = None,
    ) -> None:
        self.home, self.port, self.version = home, port, version
        self.addresses, self._namespace = addresses, namespace
        self.idle_ms = 1_000 * int(conf["serverChannelMaxIdleTimeSeconds"])
        home.mkdir(parents=True)
        paths = {"kvConfigPath": home / "kv.json", "configStorePath": home / "stored.properties", "rocketmqHome": home}
        text = "".join(f"{name}={value}\n" for name, value in ({"listenPort": port} | paths | conf).items())
        (home / "namesrv.conf").write_text(text, encoding="utf-8")
        # 4.9.7 ends at once without it.
        (home / "conf").mkdir()
        (home / "conf" / "logback_namesrv.xml").write_text(_LOGBACK.format(home), encoding="utf-8")
        self._classpath = classpath(version)
        self.process = self._started()

    @property
    def is_5x(self) -> bool:
        """Whether it is of the second generation."""
        return self.version.startswith("5.")

    @property
    def header_version(self) -> int:
        """What requests of its release have in their headers: MQVersion's ordinal, 407 for 4.9.7."""
        return 2 * int(self.version.replace(".", "")) - 587

    def address_for(self, client: str) -> str:
        """Return the address by which a client of an address reaches it."""
        return self.addresses[":" in client]

    def start(self) -> None:
        """Start it again."""
        self.process = self._started()

    def end(self, signal_number: int) -> None:
        """End its process and wait for that. Raises JvmFailedError if it has ended by itself."""
        if self.process.poll() is not None:
            said = (self.home / "console.txt").read_text(encoding="utf-8")[-2_000:]
            raise JvmFailedError(f"a name server has ended by itself: {said}")
        self.process.send_signal(signal_number)
        self.process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        java = ("java", "-Xmx300m", *BRIEF, f"-Duser.home={self.home}", "-cp", self._classpath)
        main = ("org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(self.home / "namesrv.conf"))
        with (self.home / "console.txt").open("ab") as console:
            environment = {**os.environ, "ROCKETMQ_HOME": str(self.home)}
            words = command(self._namespace, *java, *main)
            return subprocess.Popen(words, stdout=console, stderr=console, env=environment)
