"""The lines of the page that record, typed as they stand but for addresses, and for so long that they end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import pytest

from schemas import gold
from tests.night.nights import rows
from tests.night.pages import plain_blocks
from tests.places import CHECKOUT
from tests.record.recording import Client, free_port
from tests.record.standin import StandIn
from tests.wire.forge import BROKER, register_json

pytestmark = pytest.mark.slow
BLOCKS = [block for block in plain_blocks("docs/recording.md") if "spark-submit.sh record --" in block]


def test_the_page_says_how_to_record() -> None:
    """By asking, and by being one; a night follows each."""
    assert [line.split()[1:3] for block in BLOCKS for line in block.splitlines()] == [
        *(["record", "--poll"], ["nightly", "--input"]),
        *(["record", "--listen"], ["nightly", "--input"]),
    ]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split()[2])
def test_what_the_page_says_records(block: str, tmp_path: Path) -> None:
    """Each line ends well, and the night has the broker that registered while it was recorded."""
    (tmp_path / "spark-submit.sh").symlink_to(CHECKOUT / "spark-submit.sh")
    targets, port = [StandIn(), StandIn()], free_port()

    async def registered() -> None:
        while True:
            with contextlib.suppress(OSError):
                client = await asyncio.to_thread(Client, port)
                await asyncio.to_thread(client.ask, 103, BROKER, register_json({"T": 4, "U": 4}))
                return
            await asyncio.sleep(0.1)

    async def play() -> str:
        lines = block.replace("127.0.0.1:9876", f"127.0.0.1:{port}").replace("nightly", "nightly --in-process")
        for number, target in enumerate(targets, 1):
            await target.start()
            target.register("broker-a", "T", "U")
            lines = lines.replace(f"10.0.0.{number}:9876", f"127.0.0.1:{target.address[1]}")
        lines = "\n".join(f"{line} --for 3s" if " record " in line else line for line in lines.splitlines())
        environment = {**os.environ, "NAMESRV_VENV": sys.prefix}
        typed = await asyncio.create_subprocess_exec("bash", "-euc", lines, cwd=tmp_path, env=environment)
        if "--listen" in lines:
            await asyncio.wait_for(registered(), 60)
        assert await typed.wait() == 0
        return lines

    lines = asyncio.run(play())
    found = {(row["namesrv_id"], row["broker_name"]) for row in rows(tmp_path / "warehouse", gold.BROKER_ADDR_HISTORY)}
    recorded = [f"127.0.0.1:{port}"] if "--listen" in lines else [f"127.0.0.1:{one.address[1]}" for one in targets]
    assert found == {(name, "broker-a") for name in recorded}, lines
