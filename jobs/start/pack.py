"""What executors elsewhere need: they have neither this checkout nor its environment.

The packages travel as one zip, with their data files. The environment, what pyproject.toml names and what that needs, is packed
once for each lock as a relocatable .tar.gz for `--archives FILE#environment`, unless the user brings one: an archive that is
unpacked as `environment`, or a Python that is installed there. `environment/bin/python` starts it.
"""

from __future__ import annotations

import gzip
import io
import itertools
import os
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from typing import TextIO

from packaging.requirements import Requirement

from jobs import IS_INSTALLED
from jobs.errors import UsageError
from jobs.session import CommandLine
from schemas import asked

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
"""The interpreter that executors must have: compiled packages fit one minor version only."""
PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
_BELOW = tuple(__name__.split(".")[:-3])  # the package in which ours lie where pip installed them
_PACKAGES = ("jobs", "namesrv_core", "namesrv_day", "namesrv_wire", "schemas")
_ENVIRONMENT = "environment"
_SITE_PACKAGES = f"lib/{PYTHON}/site-packages"
# Left out: Spark's JARs, which every executor has, and caches, which Python makes anew for the time stamps of unpacked files.
_LEFT_OUT = ("pyspark/jars/", "pyspark/examples/", "pyspark/data/")
_TEST_FOLDERS = frozenset({"tests", "__pycache__"})
# A virtual environment's own interpreter is a link into the machine that made it. This launcher starts the executor's Python.
# Spark puts its own packages and the project's on PYTHONPATH; they come first.
_LAUNCHER = f"""#!/bin/sh
command -v {PYTHON} >/dev/null || {{ echo "namesrv-history: executors need {PYTHON} on their PATH" >&2; exit 127; }}
environment=$(cd "$(dirname "$0")/.." && pwd)
PYTHONPATH=${{PYTHONPATH:+$PYTHONPATH:}}$environment/{_SITE_PACKAGES} PYTHONNOUSERSITE=1 exec {PYTHON} "$@"
"""


def run_pack(output: Path, out: TextIO) -> int:
    """Pack this Python's environment, print how to use it, and return exit code 0."""
    try:
        size = pack(PYPROJECT, output)
    except PackageNotFoundError as error:
        raise UsageError(f"pack: {error.name} is not installed") from error
    out.write(f"{output}: {size / 1e6:,.0f} MB; executors need {PYTHON}. Use: --archives {output}#environment\n")
    return 0


def pack(pyproject: Path, output: Path) -> int:
    """Write the environment to `output` and return its size in bytes; equal environments give equal bytes.

    Raises KeyError if `pyproject` names no dependencies, PackageNotFoundError if one is not installed.
    """
    wanted = ["namesrv-history[spark]"]
    if not IS_INSTALLED:
        project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
        wanted = project["dependencies"] + project.get("optional-dependencies", {}).get("spark", [])
    files = dict(sorted((name, path) for found in closure(wanted) for name, path in files_of(found)))
    unfinished = output.with_name(f"{output.name}.unfinished")
    # Most of it is machine code: a higher level is slower and saves little.
    with (
        unfinished.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=5, fileobj=raw, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        members = ((f"{_SITE_PACKAGES}/{name}", path.read_bytes(), 0o644) for name, path in files.items())
        for name, content, mode in itertools.chain([("bin/python", _LAUNCHER.encode(), 0o755)], members):
            # Owner, time and mode are left out, because they differ between machines.
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))
    unfinished.replace(output)
    return output.stat().st_size


def closure(requirements: Iterable[str]) -> list[Distribution]:
    """Return the installed distributions that `requirements` name, and their dependencies here, by name."""
    found: dict[str, Distribution] = {}
    pending = [(Requirement(text), "") for text in requirements]
    seen = set[tuple[str, str]]()
    while pending:
        requirement, extra = pending.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = requirement.name.lower().replace("_", "-")
        found.setdefault(name, distribution(requirement.name))
        for wanted in ("", *sorted(requirement.extras)):
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                pending += [(Requirement(text), wanted) for text in found[name].requires or ()]
    return [found[name] for name in sorted(found)]


def files_of(found: Distribution) -> Iterator[tuple[str, Path]]:
    """Yield a distribution's files that executors may need, as (path below site-packages, path on this machine)."""
    for file in found.files or ():
        path = PurePosixPath(file)
        # A path that leaves site-packages is a command or a manual page.
        outside = path.is_absolute() or ".." in path.parts
        if outside or _TEST_FOLDERS.intersection(path.parts) or str(path).startswith(_LEFT_OUT):
            continue
        here = Path(str(found.locate_file(file)))
        # A licence at the top level that two distributions wrote may be missing after an update of one of them.
        if here.is_file():
            yield str(path), here


def zip_packages(checkout: Path, target: Path) -> None:
    """Write the modules and data files of all packages into a zip file, without Python's caches."""
    asked.names()  # fills the cache of translated SQL, which is packed, too
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in _PACKAGES:
            for path in sorted((checkout / package).rglob("*")):
                parts = path.relative_to(checkout).parts
                if path.is_file() and path.suffix != ".pyc" and not any(part.startswith(".") for part in parts):
                    archive.write(path, Path(*_BELOW, *parts))


def options_for_executors(line: CommandLine, venv: Path, packages: Path) -> tuple[list[str], str]:
    """Return the options of spark-submit that ship code and environment, and the executors' Python. `packages`: the zip."""
    theirs = line.given.get("--archives")
    python = line.given.get("spark.pyspark.python")
    options = ["--conf", f"spark.pyspark.driver.python={venv}/bin/python"]
    archives = [theirs] if theirs else []
    if python is None:
        python = f"./{_ENVIRONMENT}/bin/python"
        options += ["--conf", f"spark.pyspark.python={python}"]
        if f"#{_ENVIRONMENT}," not in f"{theirs},":
            # The name changes with the lock, so that the archive is made anew.
            packed = venv.with_name(f"{venv.name}.packed.tar.gz")
            marker = packed.with_name(f"{packed.name}.lock-sha256")
            lock = (venv / ".lock-sha256").read_text(encoding="utf-8")
            is_packed = packed.exists() and marker.exists() and marker.read_text(encoding="utf-8") == lock
            if not is_packed and os.environ.get("NAMESRV_DRY_RUN") != "1":  # it takes a minute
                pack(PYPROJECT, packed)
                marker.write_text(lock, encoding="utf-8")
            archives.insert(0, f"{packed}#{_ENVIRONMENT}")
    if archives:
        options += ["--archives", ",".join(archives)]
    return [*options, "--py-files", ",".join(filter(None, [str(packages), line.given.get("--py-files")]))], python
