"""Options of spark-submit, told apart from the job's, and checked before Spark would refuse them with a page of Java."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from jobs.errors import UsageError

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
