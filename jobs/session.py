"""The only place that starts a SparkSession; and the options of spark-submit, separated from the job's.

They are checked before Spark would refuse them with a page of Java.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jobs import IS_INSTALLED
from jobs.errors import UsageError, first_line, full_disk

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pyspark.sql import SparkSession


_FLAGS = frozenset({"--verbose", "--supervise", "--load-spark-defaults"})
_FILES = ("--properties-file", "--jars", "--py-files", "--files", "--archives")
_TAKE_A_VALUE = re.compile(
    "-c|--(master|deploy-mode|class|name|conf|remote|packages|exclude-packages|repositories|driver-memory|driver-java-options|"
    "driver-library-path|driver-class-path|driver-cores|executor-memory|executor-cores|total-executor-cores|num-executors|queue|"
    f"principal|keytab|proxy-user)|{'|'.join(_FILES)}"
)
_NUMBER = (r"[1-9][0-9]*", "a number")
_DRIVER_MEMORY = (r"[1-9][0-9]*[kKmMgGtT]", "a size such as 4g or 512m")  # it is the JVM that reads it
_EXECUTOR_MEMORY = (r"[1-9][0-9]*([kKmMgGtTpP][bB]?)?", "a size such as 4g or 512m")
_MASTER = (
    r"local|local\[[0-9*]+(, *[0-9]+)?\]|local-cluster\[[0-9, ]+\]|yarn|(spark|k8s)://.+",
    "local, local[N], spark://host:port, yarn or k8s://https://host:port",
)
_SETTING = (r".+?=.*", "name=value")
_EXPECTED = {
    "--master": _MASTER,
    "spark.master": _MASTER,
    "--deploy-mode": ("client|cluster", "client or cluster"),
    "--driver-memory": _DRIVER_MEMORY,
    "spark.driver.memory": _DRIVER_MEMORY,
    "--executor-memory": _EXECUTOR_MEMORY,
    "spark.executor.memory": _EXECUTOR_MEMORY,
    "--driver-cores": _NUMBER,
    "--executor-cores": _NUMBER,
    "--total-executor-cores": _NUMBER,
    "--num-executors": _NUMBER,
    "--conf": _SETTING,
    "-c": _SETTING,
}


def is_local(master: str | None) -> bool:
    """Return whether a master is threads of the driver's own JVM."""
    return master is None or master == "local" or master.startswith("local[")


class CommandLine:
    """`job`: its name and options. `spark`: options to hand on. `given`: values by option, of those that we must know."""

    def __init__(self) -> None:  # dataclasses take longer to import than all of this
        self.job: list[str] = []
        self.spark: list[str] = []
        self.given: dict[str, str] = {}

    @property
    def is_local(self) -> bool:
        """Return whether executors are this machine."""
        master = self.given.get("--master") or self.given.get("spark.master")
        if master is None and (file := self.given.get("--properties-file")):
            text = Path(file).read_text(encoding="utf-8")
            masters = re.findall(r"^\s*spark\.master[\s=:]+(\S+)", text, re.MULTILINE)
            master = masters[-1] if masters else None
        return is_local(master)


def command_line(arguments: Sequence[str]) -> CommandLine:
    """Return the command line, parted. Raises UsageError for an option of Spark's that lacks its value or cannot be."""
    line, rest = CommandLine(), iter(arguments)
    for argument in rest:
        option, is_joined, value = argument.partition("=")
        if argument == "--":
            line.job += rest
        elif argument in _FLAGS:
            line.spark.append(argument)
        elif not _TAKE_A_VALUE.fullmatch(option):
            line.job.append(argument)
        else:
            given = value if is_joined else next(rest, None)
            if given is None:
                raise UsageError(f"{option} needs a value")
            _require_possible(option, given)
            if option in ("--conf", "-c"):
                name, _, setting = given.partition("=")
                _require_possible(name, setting)
                line.given[name] = setting
            else:
                line.given[option] = given
            if option not in ("--jars", "--py-files", "--archives"):  # ours are added to these
                line.spark += [option, given]
    return line


def is_meant_for_cluster() -> bool:
    """Return whether what the session will start with has a master elsewhere. No JVM is started for it."""
    return not command_line(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))).is_local


def _require_possible(option: str, value: str) -> None:
    pattern, expected = _EXPECTED.get(option, ("", ""))
    if expected and not re.fullmatch(pattern, value, re.DOTALL):
        raise UsageError(f"{option} {value}: expected {expected}")
    for name in value.split(",") if option in _FILES else ():
        path = name.partition("#")[0]
        if not re.search(r"[:*?[]", path) and not Path(path).exists():
            raise UsageError(f"{option} {path}: no such file")


CHECKOUT = Path(__file__).resolve().parent.parent

# A compiler that does only the first, quick step has a fifth of the room for what it makes. Where all views are asked, that
# is full after half a minute: the JVM says so on standard output and interprets everything new.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# What is asked is small, and joined to small things: planning it anew behind each stage costs more than it saves, and so does a
# task for each of many partitions.
ASKING = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
}


def for_questions(spark: SparkSession) -> SparkSession:
    """Return a session, set up to answer soon, but for what was set on the command line."""
    for name, value in ASKING.items():
        if name not in os.environ.get("PYSPARK_SUBMIT_ARGS", ""):
            spark.conf.set(name, value)
    return spark


def spark_session(app_name: str, *, brief: bool = False, metastore: bool = False, bars: bool = False) -> SparkSession:
    """Return the session of this process, started with `conf/spark-defaults.conf`; one that already runs as it is.

    `brief`: the JVM is not to compile for speed what will hardly run again: it lasts for seconds, or waits for tasks in Python,
    and its compiler would take as much of the processors as reading a day. `metastore`: its catalog is Hive's, wherever Spark's
    settings say that it lies. `bars`: Spark draws how far it is, at a terminal: nobody else tells it there.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415  as above
    from pyspark.errors import PySparkException  # noqa: PLC0415  as above
    from pyspark.sql import SparkSession  # noqa: PLC0415  as above

    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        # What `spark-submit.sh` would have exported, where plain Python was started without it.
        os.environ.setdefault("SPARK_CONF_DIR", str(CHECKOUT / "conf"))
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # In a local session the setting spark.pyspark.python is ignored and workers start another Python.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        ivy = "" if IS_INSTALLED else f"--conf {shlex.quote(f'spark.jars.ivy={CHECKOUT}/.ivy2')} "
        os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"{ivy}pyspark-shell")
        os.environ["TZ"] = "UTC"  # collect() gives datetime values in the zone of the process
        time.tzset()
        if brief:
            os.environ["SPARK_SUBMIT_OPTS"] = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {BRIEF}"
    builder = SparkSession.builder.appName(app_name)
    # It is drawn over the current line, which in a log file leaves rubbish.
    builder = builder.config("spark.ui.showConsoleProgress", str(bars and sys.stderr.isatty()).lower())
    if metastore:
        builder = builder.enableHiveSupport()
    try:
        session = builder.getOrCreate()
        session.conf.get("spark.app.name")  # has Spark check its settings now
    except (PySparkException, Py4JError, ValueError) as error:
        if full_disk(error, None):
            raise
        raise UsageError(f"Spark does not start: {first_line(error)}. Are its options right?") from error
    return session


class SessionLater:
    """A session that starts beside other work: a JVM takes seconds, in which files can be read."""

    def __init__(self, app_name: str, *, metastore: bool = False, bars: bool = False) -> None:
        """Start it, as `spark_session` does, for a short time."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  every command starts with this module

        self._pool = ThreadPoolExecutor(max_workers=1)
        self._starting: Future[SparkSession] = self._pool.submit(
            spark_session, app_name, brief=True, metastore=metastore, bars=bars
        )
        self._stopping: Future[None] | None = None

    def get(self) -> SparkSession:
        """Return the session, waiting for it if need be."""
        return self._starting.result()

    def wait(self) -> None:
        """Wait until the session has started, or failed to."""
        self._starting.exception()

    def stop_soon(self) -> Future[None]:
        """Stop the session beside other work; nobody asks for it any more."""
        if self._stopping is None:
            self._stopping = self._pool.submit(self._stop)
        return self._stopping

    def stop(self) -> None:
        """Stop the session, and wait until it is."""
        stopping = self.stop_soon()
        self._pool.shutdown(wait=True)
        stopping.result()

    def _stop(self) -> None:
        if not self._starting.exception():
            self._starting.result().stop()
