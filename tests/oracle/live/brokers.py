"""Real brokers and mqadmin, as processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.oracle.jvm import BRIEF, Jvm, compiled, jars
from tests.record.recording import free_port

_JAVA = Path(__file__).parents[1] / "java"
_LOGBACK = '<configuration><root level="OFF"/></configuration>'


class RealBroker:
    """One broker; its files are in `home`. It registers with `namesrvs`, host:port."""

    def __init__(self, home: Path, version: str, name: str, broker_id: int, namesrvs: list[str]) -> None:
        self.home, self.port, self.version, self.name = home, free_port(-2, 1), version, name
        # P - 2 is its fast remoting server's, P + 1 its slaves'.
        (home / "conf").mkdir(parents=True)
        for part in ("broker", "tools"):
            (home / "conf" / f"logback_{part}.xml").write_text(_LOGBACK, encoding="utf-8")
        conf: dict[str, Any] = {
            "brokerClusterName": "C",
            "brokerName": name,
            "brokerId": broker_id,
            "brokerRole": "SLAVE" if broker_id else "ASYNC_MASTER",
            "namesrvAddr": ";".join(namesrvs),
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": self.port,
            "haListenPort": self.port + 1,
            "storePathRootDir": home / "store",
            "storePathCommitLog": home / "store" / "commitlog",
            "mappedFileSizeCommitLog": 1 << 22,
            "mappedFileSizeConsumeQueue": 60_000,
            "autoCreateTopicEnable": "true",
            "diskMaxUsedSpaceRatio": 99,
        }
        if version == "5.4.0":
            conf |= {"enableSlaveActingMaster": "true"}
        text = "".join(f"{key}={value}\n" for key, value in conf.items())
        (home / "broker.conf").write_text(text, encoding="utf-8")
        self._classpath = ":".join(map(str, jars(f"org.apache.rocketmq:rocketmq-broker:{version}")))
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """Start it, once more if it has ended."""
        opens: tuple[str, ...] = (
            "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
            "--add-opens=java.base/java.nio=ALL-UNNAMED",
        )
        opens += ("--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED")
        words: tuple[str, ...] = ("java", "-Xmx400m", "-XX:MaxDirectMemorySize=300m", *BRIEF, *opens)
        words += (f"-Duser.home={self.home}", f"-Drocketmq.home.dir={self.home}", "-cp", self._classpath)
        main = ("org.apache.rocketmq.broker.BrokerStartup", "-c", str(self.home / "broker.conf"))
        with (self.home / "console.txt").open("ab") as console:
            environment = {**os.environ, "ROCKETMQ_HOME": str(self.home)}
            self.process = subprocess.Popen([*words, *main], stdout=console, stderr=console, env=environment)
        return self.process

    def said(self) -> str:
        """Return what it wrote to its console, and how it ended if it has."""
        return f"{self.name}: {self.process.poll()}, {(self.home / 'console.txt').read_text('utf-8')}"

    def kill(self) -> None:
        """End it as if its machine had lost power."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def mqadmin(home: Path, namesrv: str) -> Iterator[Callable[..., str]]:
    """Give what mqadmin of 5.4.0 says to the words of a command, asked of a name server; one process runs all commands."""
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "logback_tools.xml").write_text(_LOGBACK, encoding="utf-8")
    libraries = jars("org.apache.rocketmq:rocketmq-tools:5.4.0")
    classes = compiled([_JAVA / "common", _JAVA / "admin"], libraries)
    options = ("-Xmx300m", f"-Drocketmq.home.dir={home}", f"-Duser.home={home}")
    with closing(Jvm("org.apache.rocketmq.tools.command.Admin", [classes, *libraries], options=options)) as jvm:
        yield lambda *words: jvm.ask(["\t".join([*words, "-n", namesrv])])[0]
