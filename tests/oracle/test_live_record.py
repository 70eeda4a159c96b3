"""`record --listen` beside a real name server: the same requests, the same bytes."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from namesrv_wire.protocol.frames import JSON, ROCKETMQ
from tests.oracle.jvm import JvmUnavailableError
from tests.oracle.live.namesrv import NameServer
from tests.oracle.request_makers import CHANNELS, Made, Maker
from tests.record.recording import Answered, Client, free_port, recording

pytestmark = [pytest.mark.jvm, pytest.mark.slow]
REQUESTS = 1_500
_BROKER = ("clusterName", "brokerName", "brokerAddr", "brokerId")
_OWN = ("kvConfigPath", "configStorePath", "listenPort", "bindAddress", "rocketmqHome")


@contextlib.contextmanager
def real(folder: Path, version: str, conf: dict[str, str]) -> Iterator[NameServer]:
    """Start a real name server, and end it."""
    try:
        server = NameServer(folder, free_port(), version, {"serverChannelMaxIdleTimeSeconds": 120, **conf})
    except JvmUnavailableError as error:
        pytest.skip(str(error))
    try:
        for _ in range(300):
            with contextlib.suppress(OSError):
                Client(server.port).close()
                break
            time.sleep(0.1)
        yield server
    finally:
        server.end(signal.SIGKILL)


def _is_usual(made: Made) -> bool:
    """Return whether a request leaves no null in a table, changes no configuration, and is not asked of a clock."""
    named = [made.ext.get(name) for name in _BROKER] if made.code in (103, 104) else ["x"]
    return made.code != 318 and "heartbeatTimeoutMillis" not in made.ext and all(named)


def _told(answered: Answered | None, theirs: Answered | None) -> object:
    """Return what is to be equal: all bytes, but for the text of an exception, and the places of files."""
    if answered is None or theirs is None:
        return answered
    frame = answered.frame
    if theirs.frame.code == 1 and "Exception" in (theirs.frame.remark or ""):
        return frame._replace(remark=None)
    if b"listenPort=" in frame.body:
        return [line for line in frame.body.decode().split("\n") if not line.startswith(_OWN)]
    return answered.raw


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("version", ["4.9.7", "5.4.0"])
def test_it_answers_as_a_real_one_does(version: str, seed: int, tmp_path: Path) -> None:
    """Random requests of both serializations over several connections: every answer is equal, byte for byte."""
    conf = {"orderMessageEnable": "true"}
    if version == "5.4.0":
        conf |= {"supportActingMaster": "true"}
    maker, chance, asked = Maker(seed), random.Random(seed), 0
    with real(tmp_path / "real", version, conf) as server:
        options = ("--profile", version, "--config", str(tmp_path / "real" / "namesrv.conf"))
        text = (tmp_path / "real" / "namesrv.conf").read_text(encoding="utf-8")
        (tmp_path / "real" / "namesrv.conf").write_text(text.replace("kv.json", "own-kv.json"), encoding="utf-8")
        with recording(tmp_path / "out", *options) as ours:
            pairs = {name: (Client(server.port), Client(ours.port)) for name in CHANNELS}
            while asked < REQUESTS:
                made = maker.request()
                if not _is_usual(made):
                    continue
                asked += 1
                serialization = chance.choice((JSON, ROCKETMQ))
                one_way = version == "4.9.7" and made.code in (-5, 0, 10, 34, 217, 300, 901, 904, 905, 999, 32_767)
                for client in pairs[made.channel]:
                    client.send(
                        made.code, made.ext, made.body or b"", version=made.version, serialization=serialization,
                        one_way=one_way,
                    )  # fmt: skip
                if one_way:  # 4.9.7 does not know it, and says nothing
                    continue
                theirs, own = (client.receive() for client in pairs[made.channel])
                assert _told(own, theirs) == _told(theirs, theirs), (made, serialization)
                if made.code == 104:
                    time.sleep(0.02)  # 5.4.0 works it off later
