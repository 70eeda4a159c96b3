"""The only place that starts a SparkSession."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

_SHUFFLE_PARTITIONS, _SPARKS_DEFAULT = "spark.sql.shuffle.partitions", "200"
# The number that we have set, to tell it from one that the user has set.
_OURS = "spark.namesrvHistory.shufflePartitions"
# Below, compiling a query takes longer than it saves.
_FEW_ROWS = 500_000
CHECKOUT = Path(__file__).resolve().parent.parent


def spark_session(app_name: str, *, warehouse: str | None = None) -> SparkSession:
    """Return the session of this process, started with `conf/spark-defaults.conf`.

    `warehouse` is the directory of tables that are named without a path. A session that already runs
    is returned as it is: one JVM has one session, and the first caller decides its warehouse.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        _stand_in_for_spark_submit()
    builder = SparkSession.builder.appName(app_name)
    # Progress is drawn over the current line, which in a log file leaves rubbish.
    builder = builder.config("spark.ui.showConsoleProgress", str(sys.stderr.isatty()).lower())
    if warehouse is not None:
        builder = builder.config("spark.sql.warehouse.dir", warehouse)
    session = builder.getOrCreate()
    tune_for(session, small=True)
    return session


def tune_for(spark: SparkSession, *, small: bool) -> None:
    """Set what depends on the size of the work.

    Compiling a query's Java code and planning it anew after each stage takes longer than running it on few rows. Measured
    on the bundled capture: the night takes two thirds of the time without. Results are the same.
    """
    untouched = spark.conf.get(_SHUFFLE_PARTITIONS) in (_SPARKS_DEFAULT, spark.conf.get(_OURS, None))
    if untouched:
        partitions = "2" if small else "8"
        spark.conf.set(_SHUFFLE_PARTITIONS, partitions)
        spark.conf.set(_OURS, partitions)
    spark.conf.set("spark.sql.codegen.wholeStage", str(not small).lower())
    spark.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if small else "FALLBACK")
    spark.conf.set("spark.sql.adaptive.enabled", str(not small).lower())
    # Min and max of a file's columns help to skip files; a small table is one file.
    spark.conf.set("spark.databricks.delta.stats.collect", str(not small).lower())


@contextmanager
def tuned_for(spark: SparkSession, rows: int) -> Iterator[None]:
    """Set what depends on the size of the work for as long as queries of about so many rows are planned and run."""
    was_small = is_small(spark)
    tune_for(spark, small=rows < _FEW_ROWS)
    try:
        yield
    finally:
        tune_for(spark, small=was_small)


def is_small(spark: SparkSession) -> bool:
    """Return whether the session is set for few rows."""
    return spark.conf.get("spark.sql.codegen.factoryMode", "") == "NO_CODEGEN"


def shuffle_partitions(spark: SparkSession) -> int:
    """Return how many partitions a shuffle has: so many packs keep all cores busy."""
    return int(str(spark.conf.get(_SHUFFLE_PARTITIONS)))


def _stand_in_for_spark_submit() -> None:
    """Set what `spark-submit.sh` would have exported, where plain Python was started without it."""
    os.environ.setdefault("SPARK_CONF_DIR", str(CHECKOUT / "conf"))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # In a local session the setting spark.pyspark.python is ignored and workers start another Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    ivy = shlex.quote(f"spark.jars.ivy={CHECKOUT / '.ivy2'}")
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"--conf {ivy} pyspark-shell")
    os.environ["TZ"] = "UTC"  # collect() gives datetime values in the zone of the process
    time.tzset()
