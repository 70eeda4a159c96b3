"""Three days of a small name server, as event logs.

10.0.0.1:9876 is a 5.4.0 server. broker-a, with a lease of a month, registers on the first day and beats once a day; broker-b
registers late on the second day and is not heard again: the scan that removes it falls between the last event of that day
and midnight.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from tests.ingest.given import NAMESRV, Line, write

DAYS = [dt.date(2026, 3, day) for day in (1, 2, 3)]
FOURTH = DAYS[-1] + dt.timedelta(days=1)
HOUR_MS = 3_600_000
MONTH_MS = 30 * 24 * HOUR_MS


def registration(name: str, clock: str, topic: str, lease_ms: int) -> Line:
    addr = f"10.0.1.{ord(name[-1])}"
    return {
        "kind": "registration",
        "time": clock,
        "channel_id": f"{addr}:40000#1",
        "request_version": 493,
        "response_code": 0,
        "cluster_name": "C",
        "broker_name": name,
        "broker_addr": f"{addr}:10911",
        "broker_id": 0,
        "enable_acting_master": False,
        "heartbeat_timeout_ms": lease_ms,
        "data_version": {"timestamp": 1, "counter": 1},
        # A registration of one topic only is refused.
        "topics": [
            {"topic": name, "read_queue_nums": 4, "write_queue_nums": 4, "perm": 6} for name in (topic, f"{topic}-2")
        ],
        "filter_servers": [],
    }


def beat(clock: str) -> Line:
    broker = {"cluster_name": "C", "broker_name": "broker-a", "broker_addr": "10.0.1.97:10911", "broker_id": 0}
    return {
        "kind": "heartbeat",
        "time": clock,
        "code": 904,
        "one_way": True,
        "channel_id": "10.0.1.97:40000#1",
        **broker,
    }


LOGS: list[list[Line]] = [
    [
        {"kind": "namesrv", "time": "10:00:00", "event": "started"},
        {"kind": "namesrv", "time": "10:00:01", "event": "identified", "version": 493},
        registration("broker-a", "10:01:00", "T", MONTH_MS),
    ],
    [beat("12:00:00"), registration("broker-b", "23:57:00", "U", 120_000), beat("23:58:00")],
    [beat("12:00:00")],
]


def write_log(folder: Path, day: dt.date, lines: list[Line], name: str = "") -> Path:
    head = {"schema": "namesrv-event/1", "namesrv_id": NAMESRV}
    stamped = [{**head, **line, "time": f"{day}T{line['time']}Z"} for line in lines]
    return write(folder / f"{day}{name}.jsonl", stamped)
