"""What rows of tests are made of: a day, events, a version."""

from __future__ import annotations

import datetime as dt
import hashlib

DAY = dt.date(2026, 3, 2)
DAY_BEFORE = dt.date(2026, 3, 1)
NOON = dt.datetime(2026, 3, 2, 12)  # noqa: DTZ001  instants are UTC
SEQ = 1_772_452_800_000_000_000
MINUTE = dt.timedelta(minutes=1)
ONE_DAY = dt.timedelta(days=1)
NAMESRV = "10.0.0.9:9876"
VERSION = {"state_version": 0, "timestamp": 1, "counter": 1}


def digest(text: str, digits: int = 32) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def addr_of(n: int) -> str:
    return f"10.1.{n // 256}.{n % 256}:10911"


E1 = digest("registration of broker-a")
TOPICS = digest("topics")
SOURCE = {"source_file": "capture.pcap", "source_offset": 1, "ingest_run": "run-1"}
EVENT = {
    "namesrv_id": NAMESRV,
    "event_time": NOON,
    "effect_time": NOON,
    "channel_id": "10.0.0.1:4000#1",
    "namesrv_addr": NAMESRV,
    "day": DAY,
    **SOURCE,
}
REQUEST = {"one_way": False, "request_version": 407, "response_code": 0}
BROKER = {"cluster_name": "C", "broker_name": "broker-a", "broker_addr": "10.0.0.1:10911", "broker_id": 0}
INTERVAL = {
    "namesrv_id": NAMESRV,
    "day": DAY,
    "valid_from": NOON,
    "opened_by": E1,
    "opened_at": {"seq": SEQ, "no": 0},
    "entered_at": {"seq": SEQ, "no": 0},
    "known_from": NOON,
    "beginning_seen": True,
}
CLOSED = {"valid_to": NOON + MINUTE, "closed_by": E1, "closed_at": {"seq": SEQ + 60_000_000_000, "no": 0}}
QUEUES = {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6, "topic_sys_flag": 0}
ROUTE = '{"queueDatas":[]}'
