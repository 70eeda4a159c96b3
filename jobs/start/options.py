"""Options of spark-submit, told apart from the job's, and checked before Spark would refuse them with a page of Java."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from jobs.errors import UsageError

_FLAGS = frozenset({"--verbose", "--supervise", "--load-spark-defaults"})
_FILES = ("--properties-file", "--jars", "--py-files", "--files", "--archives")
_TAKE_A_VALUE = frozenset(
    (
        *(
            "--master",
            "--deploy-mode",
            "--class",
            "--name",
            "--conf",
            "-c",
            "--remote",
            "--packages",
            "--exclude-packages",
        ),
        *("--repositories", "--driver-memory", "--driver-java-options", "--driver-library-path", "--driver-class-path"),
        *("--driver-cores", "--executor-memory", "--executor-cores", "--total-executor-cores", "--num-executors"),
        *("--queue", "--principal", "--keytab", "--proxy-user", *_FILES),
    )
)
_NUMBER = (r"[1-9][0-9]*", "a number")
_DRIVER_MEMORY = (r"[1-9][0-9]*[kKmMgGtT]", "a size such as 4g or 512m")  # it is the JVM that reads it
_EXECUTOR_MEMORY = (r"[1-9][0-9]*([kKmMgGtTpP][bB]?)?", "a size such as 4g or 512m")
_MASTER = (
    r"local|local\[[0-9*]+(, *[0-9]+)?\]|local-cluster\[[0-9, ]+\]|yarn|(spark|k8s)://.+",
    "local, local[N], spark://host:port, yarn or k8s://https://host:port",
)
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
    "--conf": (r".+?=.*", "name=value"),
    "-c": (r".+?=.*", "name=value"),
}


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
        return master is None or master == "local" or master.startswith("local[")


def command_line(arguments: Sequence[str]) -> CommandLine:
    """Return the command line, parted. Raises UsageError for an option of Spark's that lacks its value or cannot be."""
    line, rest = CommandLine(), iter(arguments)
    for argument in rest:
        option, is_joined, value = argument.partition("=")
        if argument == "--":
            line.job += rest
        elif argument in _FLAGS:
            line.spark.append(argument)
        elif option not in _TAKE_A_VALUE:
            line.job.append(argument)
        else:
            _take(line, option, value if is_joined else _next_of(rest, option))
    return line


def _next_of(rest: Iterator[str], option: str) -> str:
    value = next(rest, None)
    if value is None:
        raise UsageError(f"{option} needs a value")
    return value


def _take(line: CommandLine, option: str, value: str) -> None:
    _require_possible(option, value)
    if option in ("--conf", "-c"):
        name, _, setting = value.partition("=")
        _require_possible(name, setting)
        line.given[name] = setting
    else:
        line.given[option] = value
    if option not in ("--jars", "--py-files", "--archives"):  # ours are added to these
        line.spark += [option, value]


def _require_possible(option: str, value: str) -> None:
    pattern, expected = _EXPECTED.get(option, ("", ""))
    if expected and not re.fullmatch(pattern, value, re.DOTALL):
        raise UsageError(f"{option} {value}: expected {expected}")
    for name in value.split(",") if option in _FILES else ():
        path = name.partition("#")[0]
        if not re.search(r"[:*?[]", path) and not Path(path).exists():
            raise UsageError(f"{option} {path}: no such file")
