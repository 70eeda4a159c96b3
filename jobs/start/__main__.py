"""Start what was asked for: a job here or on a cluster, or a command of those who work on this software.

Jobs that need no Java get none. A local job runs in this process; its Spark, if it asks for one, starts from it, so arguments are
checked before there is a JVM, and standard input is the job's. Where the cluster is to run the driver itself, spark-submit
takes it there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if not __package__:
    # Run as a script, Python searches this folder first, where the names of modules may hide packages.
    _here = Path(__file__).resolve().parent
    sys.path[:] = [str(_here.parents[1]), *(p for p in sys.path if Path(p).resolve() != _here)]

from jobs.errors import EXIT_OK, JobError, UsageError
from jobs.start.options import CommandLine, command_line

if TYPE_CHECKING:
    from types import FrameType

    from jobs.start.java import Java

JOB = str(Path(__file__).resolve().parents[1] / "__main__.py")
DEVELOPERS = frozenset(
    {"bench", "bench-core", "coverage", "fuzz", "lint", "mutate", "oracle", "simulate", "test", "trace"}
)
_SPARK = frozenset({"demo", "nightly", "register", "sql"})
_EXPORTED = (
    *("VIRTUAL_ENV", "PATH", "PYTHONPATH", "TZ", "NAMESRV_IVY", "GX_ANALYTICS_ENABLED", "MALLOC_ARENA_MAX"),
    *("MALLOC_MMAP_THRESHOLD_", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP", "PYSPARK_PYTHON"),
    *("PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS"),
)


def main(arguments: Sequence[str]) -> int:
    """Do what was asked for and return its exit code."""
    word = arguments[0] if arguments else "--help"
    try:
        if word == "setup":
            return _set_up(arguments[1:])
        if word == "shell-env":  # for a developer's shell: eval "$(./spark-submit.sh shell-env)"
            from jobs.start.java import quoted  # noqa: PLC0415  most questions ask for no Java

            plain_python()
            for name in _EXPORTED:
                sys.stdout.write(f"export {name}={quoted([os.environ.get(name, '')])}\n")
            return EXIT_OK
        if word in DEVELOPERS:
            import importlib  # noqa: PLC0415  by name: tools know jobs, and not the other way round

            return int(importlib.import_module("tools.developing").develop(word, arguments[1:]))
        return _submit(command_line(["--help"] if word == "help" or not arguments else arguments))
    except JobError as error:
        sys.stderr.write(f"namesrv-history: {error.sentence}\n")
        return error.exit_code


def needs_java(job: Sequence[str]) -> bool:
    """Return whether a job starts Spark."""
    asks_for_help = bool({"-h", "--help"}.intersection(job))
    return bool(job) and job[0] in _SPARK and "--in-process" not in job and not asks_for_help


def plain_python() -> None:
    """Set what sessions of plain Python (tests, notebooks) start with; the launcher splits it like a shell."""
    from jobs.start.java import quoted  # noqa: PLC0415  as above

    stay_on_loopback()
    jars = ",".join(str(path) for path in sorted(Path(os.environ["NAMESRV_IVY"]).glob("jars/*.jar")))
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{quoted(['--conf', 'spark.jars.packages=', '--jars', jars])} pyspark-shell"


def stay_on_loopback() -> None:
    """One machine needs no address of the network, and a host name that does not resolve would stop the start."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _set_up(options: Sequence[str]) -> int:
    import shutil  # noqa: PLC0415  as above

    from jobs.start.java import Java  # noqa: PLC0415  as above

    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        sys.stderr.write("namesrv-history: without Java: ready for all that needs no Spark\n")
        return EXIT_OK
    java = Java()
    java.ensure_jars(options)
    stay_on_loopback()
    java.ensure_archive()
    return EXIT_OK


def _submit(line: CommandLine) -> int:
    if not line.job:
        raise UsageError("no job named; ./spark-submit.sh --help lists them")
    # Spark's Python workers look into the caller's directory first, where a folder named schemas or jobs may be anybody's.
    # Python before 3.11 does not know this variable and keeps looking there.
    os.environ["PYTHONSAFEPATH"] = "1"
    command = [sys.executable, JOB, *line.job]
    if needs_java(line.job):
        from jobs.start.java import Java, quoted  # noqa: PLC0415  as above

        java = Java()
        if not _is_dry_run():
            java.ensure_jars()
        options = [*_options(line, java), *line.spark]
        if line.given.get("--deploy-mode") == "cluster":
            command = [f"{os.environ['SPARK_HOME']}/bin/spark-submit", *options, JOB, *line.job]
        else:
            os.environ["PYSPARK_SUBMIT_ARGS"] = f"{quoted(options)} pyspark-shell"
            if _is_dry_run():
                sys.stdout.writelines(f"{text}\n" for text in ("PYSPARK_SUBMIT_ARGS", *options))
    if _is_dry_run():
        sys.stdout.writelines(f"{text}\n" for text in command)
        return EXIT_OK
    if command[0] != sys.executable:
        import subprocess  # noqa: PLC0415  as above

        return subprocess.run(command, check=False).returncode
    from jobs.__main__ import guarded  # noqa: PLC0415  it is a job's start-up time

    return guarded(line.job)


def _options(line: CommandLine, java: Java) -> list[str]:
    """Return what spark-submit is told beside the user's options."""
    if java.fits_archive(line):
        options = java.use_archive()
    else:
        # The resolved JARs are named directly: asking Ivy again takes two seconds and prints a page.
        options = [] if "--packages" in line.given or not java.jars else ["--conf", "spark.jars.packages="]
        if jars := [*java.jars, *filter(None, [line.given.get("--jars")])]:
            options += ["--jars", ",".join(jars)]
    options += ["--conf", f"spark.jars.ivy={java.ivy}"]
    if "--properties-file" in line.given:
        options.append("--load-spark-defaults")  # it adds to ours; without this option it would replace them
    if line.is_local:
        stay_on_loopback()
        theirs = [option for option in ("--archives", "--py-files") if option in line.given]
        return [*options, *(text for option in theirs for text in (option, line.given[option]))]
    import atexit  # noqa: PLC0415  most jobs stay here
    import shutil  # noqa: PLC0415
    import signal  # noqa: PLC0415
    import tempfile  # noqa: PLC0415

    from jobs.start.java import CHECKOUT  # noqa: PLC0415
    from jobs.start.pack import options_for_executors, zip_packages  # noqa: PLC0415

    folder = Path(tempfile.mkdtemp(prefix="namesrv-history."))

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  a handler of signals has both
        shutil.rmtree(folder, ignore_errors=True)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    # It goes when this process ends, also when that is told to.
    signal.signal(signal.SIGTERM, stop)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    zip_packages(CHECKOUT, folder / "packages.zip")
    shipped, os.environ["PYSPARK_PYTHON"] = options_for_executors(
        line, Path(os.environ["VIRTUAL_ENV"]), folder / "packages.zip"
    )
    return [*options, *shipped]


def _is_dry_run() -> bool:
    return os.environ.get("NAMESRV_DRY_RUN") == "1"


if __name__ == "__main__":
    from jobs.processes import end

    code = main(sys.argv[1:])
    sys.stdout.flush()
    end(code)
