"""The warm door: Spark's Thrift server on loopback, with all views and functions in place, for whoever speaks JDBC.

Sessions of users are apart, so what they ask for is permanent, in a catalog that lives in this process. They may ask, and not
change anything.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, ClassVar, Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from jobs.cli.console import Console
from jobs.cli.permanent import PermanentViews
from jobs.errors import NothingPublishedError, UsageError, first_line
from jobs.session import ASKING
from jobs.store.delta_log import head_of
from jobs.store.warehouse import Warehouse
from schemas import gold

HOST: Final = "127.0.0.1"
DATABASE: Final = "default"
_SECONDS_BETWEEN_LOOKS: Final = 10
# Within which a statement that has begun to look up names is analysed.
_SECONDS_OF_ANALYSIS: Final = 5
# Commands that only tell, by the beginnings of their plans' names; USE changes nothing but who asks.
_TELLING: Final = ("Show", "Describe", "Explain", "SetCatalogAndNamespace", "SetNamespaceCommand")
# Functions that call any method of any class.
_REFLECTING: Final = ("reflect", "java_method", "try_reflect")
_SCRIPT: Final = "ScriptTransformation "


class _Function:
    """A Python function as Scala's `Function1`."""

    class Java:
        """What Py4J reads."""

        implements: ClassVar = ["scala.Function1"]

    def __init__(self, call: Callable[[Any], Any]) -> None:
        self._call = call

    def apply(self, value: Any) -> Any:
        """Call it."""
        return self._call(value)


class ReadOnly:
    """The rule that lets sessions only ask; those that are opened before `begins` may do anything.

    It is one of Spark's analysis: it sees each statement as Spark has understood it, whatever its text.
    """

    def __init__(self) -> None:
        self._holds, self._is_changing = False, False
        self._jvm: Any = None

    def begins(self) -> None:
        """Have it hold for all sessions that are opened from now on."""
        self._holds = True

    @contextlib.contextmanager
    def changing(self, stop: threading.Event) -> Iterator[None]:
        """Refuse everything while names change: one statement must not see two runs."""
        self._is_changing = True
        try:
            yield
        finally:
            stop.wait(_SECONDS_OF_ANALYSIS)
            self._is_changing = False

    def session(self, folder: str) -> SparkSession:
        """Start the session of this process, with the rule in all that are opened beside it; `folder` is for Spark's own files."""
        _put_on_class_path()
        settings = SparkConf().setAppName("namesrv-history serve").set("spark.sql.warehouse.dir", folder)
        told = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
        for name, value in {"spark.ui.showConsoleProgress": "false", **ASKING}.items():
            if name not in told:
                settings.set(name, value)
        context = SparkContext.getOrCreate(settings)
        context.setLogLevel("OFF")  # what fails is told to who asked
        gateway: Any = context._gateway  # noqa: SLF001  extensions that are functions have no other way in
        self._jvm = gateway.jvm
        self._jvm.java.lang.System.setProperty(
            "derby.stream.error.file", os.devnull
        )  # Hive opens a catalog that nobody asks
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        gateway._callback_server.callback_server_parameters.propagate_java_exceptions = True  # noqa: SLF001  as above
        logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)  # it logs each refusal as a failure
        functions = self._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
        for name in _REFLECTING:
            functions.dropFunction(self._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name))
        builder = self._jvm.org.apache.spark.sql.classic.SparkSession.builder()
        builder.withExtensions(_Function(lambda of: of.injectCheckRule(_Function(self._rule)))).getOrCreate()
        return SparkSession.builder.getOrCreate()

    def _rule(self, _session: Any) -> _Function:
        return _Function(self._require_asking if self._holds else lambda _: None)

    def _require_asking(self, plan: Any) -> None:
        """Refuse a plan that is more than a question, by an error of the JVM's: Py4J would put a Python stack into one of ours."""
        if self._is_changing:
            self._refuse("what is published is just changing; ask again in some seconds")
        commands = self._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.COMMAND()
        name = str(plan.nodeName()).removesuffix("Statement")
        if plan.containsPattern(commands) and not name.startswith(_TELLING):
            self._refuse(f"this door is read-only: {name}")
        if self._jvm.java.lang.StringBuilder().append(plan).indexOf(_SCRIPT) >= 0:
            self._refuse(f"this door is read-only: {_SCRIPT.strip()}")

    def _refuse(self, why: str) -> None:
        self._jvm.scala.sys.package.error(why)


def _put_on_class_path() -> None:
    """Have the JVM begin with the JARs that it is told to add: the threads of Hive's server see no others."""
    told = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    words = shlex.split(told)
    jars = [word.replace(",", ":") for option, word in pairwise(words) if option == "--jars"]
    if jars:
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-class-path {shlex.quote(':'.join(jars))} {told}"


def serve(house: Warehouse, port: int, console: Console) -> None:
    """Serve the published tables on loopback until the process is told to stop; what is published meanwhile is taken in.

    Raises UsageError if the port is taken, NothingPublishedError.
    """
    with tempfile.TemporaryDirectory(prefix="namesrv-history-") as folder:
        _serve(house, port, console, folder)


def _serve(house: Warehouse, port: int, console: Console, folder: str) -> None:
    stop, read_only = threading.Event(), ReadOnly()
    spark = read_only.session(folder)
    known = head_of(house.path, gold.RUNS)
    PermanentViews(spark, house).register()
    read_only.begins()
    server = _started(spark, port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    console.line(f"Serving      {house.path} at jdbc:hive2://{HOST}:{port}/{DATABASE}, read-only")
    console.out.flush()
    while not stop.wait(_SECONDS_BETWEEN_LOOKS):
        newest = head_of(house.path, gold.RUNS)
        if newest != known:
            fresh = Warehouse(house.path, house.conf, house.run_id, house.started)
            with contextlib.suppress(NothingPublishedError), read_only.changing(stop):
                PermanentViews(spark, fresh).register()
            known = newest
    server.stop()


def _started(spark: SparkSession, port: int) -> Any:
    """Return Spark's Thrift server, listening."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  PySpark has no door to it
    for name, value in {"bind.host": HOST, "port": str(port)}.items():
        jvm.java.lang.System.setProperty(f"hive.server2.thrift.{name}", value)
        spark.conf.set(f"hive.server2.thrift.{name}", value)
    thrift = jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
    try:
        return thrift.startWithSparkSession(spark._jsparkSession, False)  # noqa: SLF001  as above
    except Exception as error:
        raise UsageError(f"port {port}: the Thrift server does not start: {first_line(error)}") from error
