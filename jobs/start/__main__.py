"""Start a job, here or on a cluster, or a developers' command.

Jobs that need no Java get none. A local job runs in this process; its Spark, if it asks for one, starts from it, so arguments are
checked before there is a JVM, and standard input is the job's. Where the cluster is to run the driver itself, spark-submit
takes it there.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

if not __package__:
    # Run as a script, Python searches this folder first, where the names of modules may hide packages.
    _here = Path(__file__).resolve().parent
    sys.path[:] = [str(_here.parents[1]), *(p for p in sys.path if Path(p).resolve() != _here)]

from jobs import IS_INSTALLED, PROGRAM
from jobs.errors import EXIT_OK, JobError, UsageError
from jobs.session import CommandLine, command_line

JOB = str(Path(__file__).resolve().parents[1] / "__main__.py")
DEVELOPERS = frozenset(
    {"bench", "coverage", "dependencies", "fuzz", "lint", "mutate", "oracle", "simulate", "test", "torture", "trace"}
)
_SPARK = frozenset({"demo", "nightly", "register", "sql"})
_EXPORTED = (
    *("VIRTUAL_ENV", "PATH", "PYTHONPATH", "TZ", "NAMESRV_IVY", "GX_ANALYTICS_ENABLED", "MALLOC_ARENA_MAX"),
    *("MALLOC_MMAP_THRESHOLD_", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP", "PYSPARK_PYTHON"),
    *("PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS"),
)


def main(arguments: Sequence[str]) -> int:
    """Run the job or command and return its exit code."""
    word = arguments[0] if arguments else "--help"
    try:
        if word == "setup":
            from jobs.start.java import set_up  # noqa: PLC0415  as below

            set_up(arguments[1:])
            return EXIT_OK
        if word == "shell-env":  # for a developer's shell: eval "$(./spark-submit.sh shell-env)"
            from jobs.start.java import plain_python  # noqa: PLC0415  most jobs need no Java

            plain_python()
            for name in _EXPORTED:
                sys.stdout.write(f"export {name}={shlex.join([os.environ.get(name, '')])}\n")
            return EXIT_OK
        if word in DEVELOPERS and not IS_INSTALLED:
            import importlib  # noqa: PLC0415  by name: tools import jobs, not the reverse

            return int(importlib.import_module("tools.developing").develop(word, arguments[1:]))
        return _submit(command_line(["--help"] if word == "help" or not arguments else arguments))
    except JobError as error:
        sys.stderr.write(f"namesrv-history: {error.sentence}\n")
        return error.exit_code


def needs_java(job: Sequence[str]) -> bool:
    """Return whether a job starts Spark."""
    asks_for_help = bool({"-h", "--help"}.intersection(job))
    return bool(job) and job[0] in _SPARK and "--in-process" not in job and not asks_for_help


def _submit(line: CommandLine) -> int:
    if not line.job:
        raise UsageError(f"no job named; {PROGRAM} --help lists them")
    # Spark's Python workers search the caller's directory first, where a folder may happen to be named schemas or jobs.
    # Python before 3.11 ignores this variable.
    os.environ["PYTHONSAFEPATH"] = "1"
    command = [sys.executable, JOB, *line.job]
    if needs_java(line.job):
        from jobs.start.java import Java, options_of  # noqa: PLC0415  as above

        java = Java()
        if not _is_dry_run():
            java.ensure_jars()
        options = [*options_of(line, java), *line.spark]
        if line.given.get("--deploy-mode") == "cluster":
            command = [f"{os.environ['SPARK_HOME']}/bin/spark-submit", *options, JOB, *line.job]
        else:
            os.environ["PYSPARK_SUBMIT_ARGS"] = f"{shlex.join(options)} pyspark-shell"
            if _is_dry_run():
                sys.stdout.writelines(f"{text}\n" for text in ("PYSPARK_SUBMIT_ARGS", *options))
    if _is_dry_run():
        sys.stdout.writelines(f"{text}\n" for text in command)
        return EXIT_OK
    if command[0] != sys.executable:
        import subprocess  # noqa: PLC0415  as above

        return subprocess.run(command, check=False).returncode
    from jobs.__main__ import guarded  # noqa: PLC0415  slow to import

    return guarded(line.job)


def _is_dry_run() -> bool:
    return os.environ.get("NAMESRV_DRY_RUN") == "1"


def console() -> NoReturn:
    """Run the job or command and end this process. Installed by pip, set first what `spark-submit.sh` exports."""
    from jobs.processes import end  # noqa: PLC0415  the search path is cleaned first

    if IS_INSTALLED:
        from jobs.start.java import CONF  # noqa: PLC0415  as above

        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "namesrv-history")
        spark = find_spec("pyspark")
        exported = {
            "VIRTUAL_ENV": sys.prefix,
            "NAMESRV_IVY": str(cache),
            "SPARK_HOME": str(Path(spark.origin).parent) if spark is not None and spark.origin else "",
            "SPARK_CONF_DIR": str(CONF),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "GX_ANALYTICS_ENABLED": "false",
        }
        for name, value in exported.items():
            os.environ.setdefault(name, value)
        os.environ["TZ"] = "UTC"
        time.tzset()
    code = main(sys.argv[1:])
    sys.stdout.flush()
    end(code)


if __name__ == "__main__":
    console()
