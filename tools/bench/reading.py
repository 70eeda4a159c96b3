"""How fast captures and event logs are read, the whole step with its tables, and in how much memory."""

from __future__ import annotations

import datetime as dt
import shutil
import time
from functools import partial
from pathlib import Path
from struct import pack

from dpkt import pcap

from jobs.cli.export import export
from jobs.conf import PipelineConf
from jobs.ingest.ingest import ingest
from jobs.night.passes import Processes
from jobs.processes import cores
from jobs.store.warehouse import Warehouse
from namesrv_wire.packets.columns import read_columns
from namesrv_wire.packets.container import read_records
from namesrv_wire.rows import AnyRow
from namesrv_wire.servers.transcript import Transcript
from schemas import bronze
from tools.bench.fleets import START, Fleets
from tools.bench.harness import Measured, NotMeasured, Ratio, Side, timed
from tools.bench.processes import peak_mib
from tools.fleet.asking import Traffic
from tools.fleet.capture import capture
from tools.fleet.fleet import Fleet

_FIRST_PACKETS_A_SECOND, _FIRST_LINES_A_SECOND, _WANTED = 11_400.0, 10_200.0, 100_000
# Each has some 52,000 packets a day with its two brokers.
_CLIENTS = {"full": {"1x": 4, "10x": 40, "day": 96}, "small": {"1x": 1, "10x": 10, "day": 2}}
_HEADERS_BYTES = 54
_AFTERWARDS = dt.datetime.combine(START + dt.timedelta(days=1), dt.time(), dt.timezone.utc)
Said = frozenset[tuple[object, ...]]


def reading(fleets: Fleets, rounds: int) -> list[Measured]:
    """A captured day and its event log, by the first version's rates on one core; ten times the packets by the packets."""
    files = {name: _captured(fleets, name) for name in ("1x", "10x")}
    sides = [
        Side("pcap", partial(_rows_of, files["1x"])),
        Side("pcapng", partial(_rows_of, _as_pcapng(files["1x"]))),
    ]
    seconds, answer = timed(sides, rounds)
    found: list[Measured] = [
        Ratio(
            "rows of a capture a second, as pcapng ÷ as pcap",
            "pcap",
            "pcapng",
            seconds,
            0.85,
            True,
            answers=_size(answer),
        )
    ]
    house = fleets.folder / "read"
    packets, said = _rates(files["10x"], house, rounds)
    log = fleets.folder / "read.jsonl"
    lines = export(_house(house), log)
    rates, again = _rates(log, fleets.folder / "read-again", rounds)
    for name, side, values, first in (
        ("packets a second of CPU ÷ the first version's", "ingest", packets, _FIRST_PACKETS_A_SECOND),
        ("lines of an event log a second of CPU ÷ the first version's", "ingest", rates, _FIRST_LINES_A_SECOND),
    ):
        if said != again:
            found.append(NotMeasured(name, f"the log of {lines} lines gives other rows than the capture"))
            continue
        notes = {"a second": round(max(values))}
        found.append(
            Ratio(name, side, first, {side: values}, _WANTED / first, True, 1, "a second", len(said), notes=notes)
        )
    peaks = {name: [_peak(fleets, file)] for name, file in files.items()}
    name = "peak memory of ingest, 10x ÷ 1x packets"
    return [*found, Ratio(name, "10x", "1x", peaks, 1.2, unit="MiB")]


def captured_day(fleets: Fleets, rounds: int) -> list[Measured]:
    """A day of five million packets, read by a pass of the capture library alone on one."""
    file, house = _captured(fleets, "day"), fleets.folder / "read-day"

    def read() -> int:
        return ingest(_house(house), [str(file)], passes=Processes(cores())).packets

    def slices() -> int:
        with file.open("rb") as capture:
            return sum(1 for _, packet in pcap.Reader(capture) if packet[:_HEADERS_BYTES])

    before = partial(shutil.rmtree, house, ignore_errors=True)
    seconds, packets = timed([Side("ingest", read, before), Side("dpkt", slices)], rounds)
    return [
        Ratio("reading a captured day ÷ a pass of the capture library", "ingest", "dpkt", seconds, 2, answers=packets)
    ]


def _size(answer: object) -> int | None:
    return len(answer) if isinstance(answer, frozenset) else None


def _captured(fleets: Fleets, name: str) -> Path:
    """Return a capture of a day of some brokers and clients, made when it is first asked for."""
    clients = _CLIENTS[fleets.scale][name]
    file = fleets.folder / f"{fleets.scale}-read-{name}.pcap"
    if not file.exists():
        fleet = Fleet(START, brokers=2 * clients, namesrvs=1)
        capture(fleet, Traffic(clients=clients), [START], [file], file.with_suffix(".truth.jsonl"))
    return file


def _as_pcapng(file: Path) -> Path:
    """Return a capture in the other format."""
    path, resolution = file.with_suffix(".pcapng"), pack("<HHB3xHH", 9, 1, 9, 0, 0)
    with path.open("wb") as out:
        for number, records in enumerate(read_records(file)):
            if not number:
                out.write(_block(0x0A0D0D0A, pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
                out.write(_block(1, pack("<HHI", int(records.link_type[0]), 0, 0) + resolution))
            for at, size, time_ns in zip(records.start, records.kept, records.time_ns, strict=True):
                head = pack("<IIIII", 0, int(time_ns) >> 32, int(time_ns) & 0xFFFFFFFF, size, size)
                out.write(_block(6, head + records.data[at : at + size] + bytes(-size % 4)))
    return path


def _block(kind: int, body: bytes) -> bytes:
    size = pack("<I", len(body) + 12)
    return pack("<I", kind) + size + body + size


def _rows_of(file: Path) -> Said:
    transcript = Transcript()
    rows = [row for packets in read_columns(file) for row in transcript.feed_all(packets, file.name)[0]]
    return _said([*rows, *transcript.finish()])


def _said(rows: list[AnyRow]) -> Said:
    """Return of each row what tells it apart."""
    return frozenset((row.table, *(str(row.values.get(name)) for name in ("event_id", "seq"))) for row in rows)


def _house(path: Path) -> Warehouse:
    return Warehouse(str(path), PipelineConf(), "bench", _AFTERWARDS)


def _rates(file: Path, path: Path, rounds: int) -> tuple[list[float], Said]:
    """Return how many packets or lines a second of CPU a whole `ingest` reads, in each round, and what is stored of events."""
    rates = []
    for _ in range(rounds + 1):
        shutil.rmtree(path, ignore_errors=True)
        began = time.process_time()
        read = ingest(_house(path), [str(file)])
        rates.append((read.packets or read.frames) / (time.process_time() - began))
    return rates[1:], _stored(path)


def _stored(path: Path) -> Said:
    """Return what is stored of events."""
    return frozenset(
        (table.name, *row)
        for table in bronze.RECORDED_TABLES
        for row in zip(*_house(path).rows(table, columns=["event_id", "seq"]).to_pydict().values(), strict=True)
    )


def _peak(fleets: Fleets, file: Path) -> float:
    house = fleets.folder / "read-peak"
    shutil.rmtree(house, ignore_errors=True)
    return peak_mib(["ingest", "--input", str(file), "--warehouse", str(house)], fleets.folder)["all"]
