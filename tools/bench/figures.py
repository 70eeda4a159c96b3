"""Every figure that is promised: what stands on either side, and the bar.

Whole commands run in processes of their own, by turns, once by each checkout that is compared; what they published is
compared by content before a time counts.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import SparkSession

from jobs.cli.commands import DEMO_CAPTURE
from jobs.session import CHECKOUT
from namesrv_wire.compression import unpacked
from namesrv_wire.packets.container import read_records
from tests.oracle.jvm import JvmUnavailableError
from tests.pcap import enhanced, interface, option, section
from tools.bench import core as the_core
from tools.bench.harness import Measured, NotMeasured, Ratio, Side, timed
from tools.bench.listening import BROKERS, LOAD_S, ROUTES_A_S, Took, listening

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

START, NEXT = "2026-01-01", "2026-01-02"
THIS, BEFORE = "this", "before"
CHANGES = (
    "SELECT namesrv_id, effect_time, topic, change FROM route_changes ORDER BY ALL",
    "SELECT code, sum(answers), sum(matched) FROM answer_checks GROUP BY ALL ORDER BY ALL",
)
"""Queries with equal answers in two equal warehouses, whatever their layout."""
SCANNED = (
    "namesrv_id", "cluster_name", "broker_name", "broker_addr", "code", "data_version", "channel_id", "effect_time", "seq",
)  # fmt: skip
"""The columns of a heartbeat on which its effect depends."""
# All outages are longer than the lease and a period of the scan.
_QUIET = ("--outages", "0.0002", "--outage-s", "150", "900")


class Ran(NamedTuple):
    """What a command took: seconds on the clock, seconds of CPU with all its children, MiB of its largest process."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    printed: str


def ran(checkout: Path, arguments: Sequence[str], folder: Path, *, on_one_core: bool = False) -> Ran:
    """Run a job by the wrapper of `checkout` in `folder`. Raises CalledProcessError with what it printed.

    `on_one_core`: the job makes no pool of processes, whose CPU time could not be measured.
    """
    # The wrapper starts Spark anew, without this session's environment.
    others = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_", "_PYSPARK"))
    }
    output, command = folder / "output.txt", [str(checkout / "spark-submit.sh"), *arguments]
    with output.open("wb") as out:
        began = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=folder, env=others)
        if on_one_core:  # before the wrapper has started anything that asks
            os.sched_setaffinity(child.pid, {max(os.sched_getaffinity(0))})
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    printed = output.read_text(encoding="utf-8", errors="replace")
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command, printed)
    return Ran(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, printed)


@dataclass
class Bench:
    """Where figures are measured: `versions` are checkouts by name, `captures` a folder of recordings of real clusters."""

    spark: Callable[[], SparkSession]
    folder: Path
    is_full: bool
    rounds: int
    versions: dict[str, Path]
    captures: Path | None = None

    def run(self, version: str, *arguments: str | Path, on_one_core: bool = False) -> Ran:
        """Run a job of a checkout."""
        return ran(self.versions[version], [*map(str, arguments)], self.folder, on_one_core=on_one_core)

    def path(self, name: str, version: str = THIS) -> Path:
        """Return where something of a version lies."""
        return self.folder / f"{name}-{version}"

    def fresh(self, name: str, version: str = THIS, like: str | None = None) -> Path:
        """Return the path of a warehouse that is empty, or a copy; files are linked: nobody writes to one that is there."""
        path = self.path(name, version)
        shutil.rmtree(path, ignore_errors=True)
        if like is not None:
            shutil.copytree(self.path(like, version), path, copy_function=os.link)
        return path

    def said(self, version: str, warehouse: Path) -> str:
        """Return what is compared of a warehouse, as text."""
        asked = (self.run(version, "ask", "sql", sql, "--warehouse", warehouse, "--format", "csv") for sql in CHANGES)
        return "\n".join(each.printed for each in asked)

    def each(self, work: Callable[[str], tuple[Ran, object]]) -> dict[str, list[Ran]]:
        """Do work by each version, by turns, after a round that does not count. Raises AnswersDifferError."""
        found: dict[str, list[Ran]] = {version: [] for version in self.versions}

        def once(version: str) -> object:
            took, said = work(version)
            found[version].append(took)
            return said

        timed([Side(version, partial(once, version)) for version in self.versions], self.rounds)
        return {version: took[1:] for version, took in found.items()}


def _figures(name: str, took: dict[str, list[Ran]], bar: float, of: Callable[[Ran], float]) -> list[Measured]:
    """Return a figure of this version by a number, and by the version before, which is not to be faster."""
    values = {version: [of(each) for each in runs] for version, runs in took.items()}
    found: list[Measured] = [Ratio(name, THIS, 1.0, values, bar)]
    return [*found, Ratio(f"{name}, this ÷ before", THIS, BEFORE, values, 1.1)] if BEFORE in took else found


_wall, _cpu = attrgetter("wall_s"), attrgetter("cpu_s")


def network(bench: Bench) -> list[Measured]:
    """Five minutes of two live name servers, past unknown: a whole night, and what of it comes after reading."""
    name = "network-large"
    if bench.captures is None or not (bench.captures / name).is_dir():
        return [NotMeasured(name, "no --captures with that folder")]
    recorded = str(bench.captures / name / "host.pcap.xz")

    def whole(version: str) -> tuple[Ran, object]:
        warehouse = bench.fresh("network", version)
        took = bench.run(version, "nightly", "--join-addresses", "--input", recorded, "--warehouse", warehouse)
        return took, bench.said(version, warehouse)

    def after(version: str) -> tuple[Ran, object]:
        warehouse = bench.fresh("network-after", version, like="network-read")
        days = ("--from", "2026-11-23")  # when it was recorded
        asked = ("--in-process", "--join-addresses", *days, "--warehouse", warehouse)
        took = bench.run(version, "nightly", *asked, on_one_core=True)
        return took, bench.said(version, warehouse)

    for version in bench.versions:
        bench.run(version, "ingest", "--input", recorded, "--warehouse", bench.fresh("network-read", version))
    return [
        *_figures(f"{name}, whole nightly", bench.each(whole), 30, _wall),
        *_figures(f"{name}, CPU of replay and after", bench.each(after), 12, _cpu),
    ]


def demo(bench: Bench) -> list[Measured]:
    """The bundled capture as a newcomer meets it, and one question in a process of its own."""

    def whole(version: str) -> tuple[Ran, object]:
        warehouse = bench.fresh("demo", version)
        return bench.run(version, "demo", "--warehouse", warehouse), bench.said(version, warehouse)

    def route(version: str) -> tuple[Ran, object]:
        warehouse = bench.path("demo", version)
        took = bench.run(version, "ask", "route-at", "TopicA", "2026-11-21 08:58", "--warehouse", warehouse)
        return took, took.printed

    return [
        *_figures("bundled capture, demo", bench.each(whole), 8, _wall),
        *_figures("ask route-at, CPU of a process", bench.each(route), 0.2, _cpu),
    ]


def quiet(bench: Bench) -> list[Measured]:
    """A quiet night beside Spark's scan of the same columns."""
    size = ("--brokers", "2000", "--namesrvs", "4") if bench.is_full else ("--brokers", "16", "--namesrvs", "2")
    for version in bench.versions:
        _two_days(bench, version, "quiet", [*size, *_QUIET])

    def night(version: str) -> tuple[Ran, object]:
        warehouse, summary = bench.fresh("quiet-night", version, like="quiet"), bench.folder / f"{version}.json"
        took = bench.run(version, "nightly", "--from", NEXT, "--warehouse", warehouse, "--summary", summary)
        steps = json.loads(summary.read_text(encoding="utf-8"))["seconds"]
        return took._replace(printed=json.dumps(steps)), bench.said(version, warehouse)

    took = bench.each(night)[THIS]
    beats = _heartbeats(bench, "quiet")
    scan, _ = timed(
        [Side("scan", lambda: beats.select(*SCANNED).write.format("noop").mode("overwrite").save())], bench.rounds
    )
    steps = [json.loads(each.printed) for each in took]
    sides = {
        "replay and flags": [each["condense"] + each["replay"] for each in steps],
        "every step": [sum(each.values()) for each in steps],
        "cold process": [each.wall_s for each in took],
    }
    notes = {"heartbeats": beats.count()}
    return [
        Ratio(f"quiet night, {name} ÷ scan", name, "scan", {name: values, **scan}, bar, notes=notes)
        for (name, values), bar in zip(sides.items(), (1.5, 2.5, 5), strict=True)
    ]


def unknown(bench: Bench) -> list[Measured]:
    """A name server whose start was not recorded by the same whose was; and twice its heartbeats by once."""
    brokers = 500 if bench.is_full else 8

    def recorded(name: str, first: str, count: int) -> None:
        size = ("--brokers", str(count), "--namesrvs", "1", *_QUIET)
        bench.run(THIS, "simulate", "--start", START, "--from", first, *size, "--warehouse", bench.fresh(name))

    _two_days(bench, THIS, "known", ["--brokers", str(brokers), "--namesrvs", "1", *_QUIET])
    recorded("unknown", NEXT, brokers)
    recorded("unknown-double", NEXT, 2 * brokers)
    took: dict[str, list[Ran]] = {"known": [], "unknown": [], "unknown-double": []}
    for _ in range(bench.rounds):
        for name, runs in took.items():
            warehouse = bench.fresh("past", like=name)
            asked = ("--in-process", "--from", NEXT, "--warehouse", warehouse)
            runs.append(bench.run(THIS, "nightly", *asked, on_one_core=True))
    cpu = {name: [each.cpu_s for each in runs] for name, runs in took.items()}
    peak = {name: [each.peak_mib for each in runs] for name, runs in took.items()}
    return [
        Ratio("past unknown ÷ known, CPU", "unknown", "known", cpu, 1.5),
        Ratio("past unknown, peak memory", "unknown", 1.0, peak, 600, unit="MiB"),
        Ratio("past unknown, twice the heartbeats, peak memory", "unknown-double", "unknown", peak, 1.2, unit="MiB"),
    ]


def queues(bench: Bench) -> list[Measured]:
    """A quiet night over very many queue rows: what it writes, and its time by a plain write of them."""
    size = ("--brokers", "300", "--topics", "10000") if bench.is_full else ("--brokers", "12", "--topics", "50")
    _two_days(bench, THIS, "queues", [*size, "--namesrvs", "1", "--shared-topics"])
    took, written = [], []
    for _ in range(bench.rounds):
        warehouse = bench.fresh("queues-night", like="queues")
        before = _files(warehouse / "gold")
        took.append(bench.run(THIS, "nightly", "--from", NEXT, "--warehouse", warehouse).wall_s)
        written.append(sum(size for path, size in _files(warehouse / "gold").items() if path not in before) / 1e6)
    table = bench.spark().read.format("delta").load(str(warehouse / "gold" / "topic_queue_history"))
    rows = table.persist()
    notes = {"rows": rows.count()}
    plainly, _ = timed(
        [Side("Spark", lambda: rows.write.format("delta").mode("overwrite").save(str(bench.folder / "plain")))],
        bench.rounds,
    )
    rows.unpersist()
    return [
        Ratio("queue rows, a quiet night writes", "MB", 1.0, {"MB": written}, 1, unit="MB", notes=notes),
        Ratio("queue rows, quiet night ÷ plain write", "night", "Spark", {"night": took, **plainly}, 0.2, notes=notes),
    ]


def hourly(bench: Bench) -> list[Measured]:
    """A day in 24 runs (few at small scale) by the same in one; both say the same in the end."""
    size = [
        "--brokers",
        "40" if bench.is_full else "4",
        "--namesrvs",
        "2",
        "--outages",
        "0.01",
        "--outage-s",
        "150",
        "900",
    ]
    bench.run(THIS, "simulate", "--start", START, *size, "--warehouse", bench.fresh("hours"))
    log = bench.folder / "hours.jsonl"
    bench.run(THIS, "export", "--output", log, "--warehouse", bench.path("hours"))
    hours: dict[str, list[str]] = {}
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            hour = json.loads(line)["effect_time"][: 13 if bench.is_full else 12]
            hours.setdefault(hour, []).append(line)
    parts = []
    for hour in sorted(hours):
        parts.append(bench.folder / f"{hour}.jsonl")
        parts[-1].write_text("".join(hours[hour]), encoding="utf-8")

    def run(name: str, pieces: Sequence[Sequence[Path]]) -> str:
        warehouse = bench.fresh(name)
        for files in pieces:
            bench.run(THIS, "nightly", "--in-process", "--input", *files, "--warehouse", warehouse)
        return bench.said(THIS, warehouse)

    sides = [
        Side("hourly", partial(run, "hourly", [[part] for part in parts])),
        Side("nightly", partial(run, "nightly", [parts])),
    ]
    seconds, _ = timed(sides, bench.rounds, warm_up=False)
    return [Ratio(f"{len(parts)} runs of a day ÷ one nightly run", "hourly", "nightly", seconds, 2)]


def reading(bench: Bench) -> list[Measured]:
    """Packets a second of CPU, of captures as pcap and as pcapng: the bundled one, and a network's where there is one."""
    found: list[Measured] = []
    captures = {"loopback": DEMO_CAPTURE}
    if bench.captures is not None and (bench.captures / "network-large").is_dir():
        captures["network"] = bench.captures / "network-large" / "host.pcap.xz"
    for name, capture in captures.items():
        file = _unpacked(capture, bench.folder / f"{name}.pcap")
        again = _as_pcapng(file)

        def ingest(input_file: Path, version: str) -> tuple[Ran, object]:
            warehouse = bench.fresh("reading", version)
            took = bench.run(version, "ingest", "--input", input_file, "--warehouse", warehouse)
            return took, _counts(took.printed)

        took = bench.each(partial(ingest, file))
        found += _figures(f"reading {name}, CPU", took, 60, _cpu)
        values = {
            "pcap": [each.cpu_s for each in took[THIS]],
            "pcapng": [ingest(again, THIS)[0].cpu_s for _ in range(bench.rounds)],
        }
        found.append(Ratio(f"reading {name}, speed as pcapng ÷ as pcap", "pcap", "pcapng", values, 0.85, at_least=True))
    return found


def recorder(bench: Bench) -> list[Measured]:
    """A name server that records: its CPU while brokers and clients use it, and its answers a second of CPU beside a real one's."""
    took: dict[str, list[Took]] = {"record": [], "real": []}

    def use(number: int, side: str) -> str:
        folder = bench.folder / f"recorder-{number}"
        took[side].append(listening(folder / side, is_real=side == "real", load_s=LOAD_S if bench.is_full else 1))
        return took[side][-1].said

    try:
        numbers = count()
        timed(
            [Side(side, partial(lambda of: use(next(numbers), of), side)) for side in took], bench.rounds, warm_up=False
        )
    except JvmUnavailableError as error:
        return [NotMeasured("record --listen", str(error))]
    loads = {side: [each.load_s / (LOAD_S if bench.is_full else 1) for each in all_of] for side, all_of in took.items()}
    fast = {side: [each.routes_a_cpu_s for each in all_of] for side, all_of in took.items()}
    load = f"record --listen, {BROKERS:,} brokers and {ROUTES_A_S:,} routes a second, cores"
    return [
        Ratio(load, "record", 1.0, loads, 1.0, unit="cores"),
        Ratio(
            "routes a second of CPU, record --listen ÷ a real one",
            "record",
            "real",
            fast,
            1.0,
            at_least=True,
            unit="/s",
        ),
    ]


def core(bench: Bench) -> list[Measured]:
    """Nanoseconds of an event: the core beside RocketMQ's own classes, and with many brokers beside few."""
    rounds = max(bench.rounds, 7) if bench.is_full else bench.rounds
    try:
        found = [ratio for version in the_core.VERSIONS for ratio in the_core.beside_java(version, rounds)]
    except JvmUnavailableError as error:
        return [NotMeasured("core ÷ Java", str(error))]
    return [*found, *(ratio for version in the_core.VERSIONS for ratio in the_core.by_size(version, rounds))]


FIGURES: dict[str, Callable[[Bench], list[Measured]]] = {
    figure.__name__: figure for figure in (core, network, demo, quiet, unknown, queues, hourly, reading, recorder)
}


def versions_with(before: Path | None) -> dict[str, Path]:
    """Return the checkouts that are compared."""
    return {THIS: CHECKOUT} if before is None else {THIS: CHECKOUT, BEFORE: before}


def _two_days(bench: Bench, version: str, name: str, fleet: Sequence[str]) -> None:
    """Have a warehouse with a published day of a fleet, and the next one recorded: steady state."""
    warehouse = bench.fresh(name, version)
    simulate = ("simulate", "--start", START, *fleet, "--warehouse", str(warehouse))
    bench.run(version, *simulate)
    bench.run(version, "nightly", "--from", START, "--warehouse", warehouse)
    bench.run(version, *simulate, "--from", NEXT)


def _heartbeats(bench: Bench, name: str) -> DataFrame:
    """Return the heartbeats of the second day as Spark's own writer leaves them, whatever our layout is."""
    spark, folder = bench.spark(), bench.folder / f"{name}-as-spark-stores"
    table = spark.read.format("delta").load(str(bench.path(name) / "bronze" / "heartbeats"))
    files = [file for file in table.inputFiles() if f"day={NEXT}" in file]
    if not (folder / "_SUCCESS").exists():
        spark.read.parquet(*files).write.mode("overwrite").parquet(str(folder))
    return spark.read.parquet(str(folder))


def _files(folder: Path) -> dict[Path, int]:
    return {path.relative_to(folder): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def _counts(printed: str) -> list[str]:
    """Return the lines in which a run says what became of what it read."""
    return [line for line in printed.splitlines() if "events" in line and "=" in line]


def _unpacked(capture: Path, target: Path) -> Path:
    with capture.open("rb") as raw, target.open("wb") as out:
        shutil.copyfileobj(unpacked(raw), out)
    return target


def _as_pcapng(file: Path) -> Path:
    """Return a capture in the other format, times in nanoseconds."""
    path = file.with_suffix(".pcapng")
    with path.open("wb") as out:
        for number, records in enumerate(read_records(file)):
            if not number:
                resolution = option("<", 9, bytes([9])) + option("<", 0, b"")
                out.write(section() + interface(link_type=int(records.link_type[0]), options=resolution))
            for at, size, time_ns in zip(records.start, records.kept, records.time_ns, strict=True):
                out.write(enhanced(records.data[at : at + size], ticks=int(time_ns)))
    return path
