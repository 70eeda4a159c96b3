"""Pack the Python environment for executors: what the project needs to run, in one relocatable archive.

Reads   the running environment: the distributions that pyproject.toml names, and what they need
Writes  a .tar.gz for `--archives FILE#environment`; `environment/bin/python` starts it
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path, PurePosixPath
from typing import TextIO

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
"""The interpreter that executors must have: compiled packages fit one minor version only."""
PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
_SITE_PACKAGES = f"lib/{PYTHON}/site-packages"
# Spark's JARs are on every executor before any Python is; caches are made again for the time stamps of unpacked files.
_LEFT_OUT = ("pyspark/jars/", "pyspark/examples/", "pyspark/data/")
_TEST_FOLDERS = frozenset({"tests", "__pycache__"})
# A virtual environment's own interpreter is a link into the machine it was made on. This one takes the executor's. Spark
# puts its own packages and the project's on PYTHONPATH; they come first.
_LAUNCHER = f"""#!/bin/sh
command -v {PYTHON} >/dev/null || {{ echo "namesrv-history: executors need {PYTHON} on their PATH" >&2; exit 127; }}
environment=$(cd "$(dirname "$0")/.." && pwd)
PYTHONPATH=${{PYTHONPATH:+$PYTHONPATH:}}$environment/{_SITE_PACKAGES} PYTHONNOUSERSITE=1 exec {PYTHON} "$@"
"""


def run_pack(output: Path, out: TextIO) -> int:
    """Pack the environment that runs this, say how to use it, and return exit code 0."""
    size = pack(PYPROJECT, output)
    out.write(f"{output}: {size / 1e6:,.0f} MB; executors need {PYTHON}. Use: --archives {output}#environment\n")
    return 0


def pack(pyproject: Path, output: Path) -> int:
    """Write the environment to `output` and return its size in bytes; equal environments give equal bytes.

    Raises KeyError if `pyproject` names no dependencies, PackageNotFoundError if one is not installed.
    """
    wanted = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["dependencies"]
    files = dict(sorted((name, path) for found in closure(wanted) for name, path in files_of(found)))
    unfinished = output.with_name(f"{output.name}.unfinished")
    # Most of it is machine code, which a higher level makes slower and hardly smaller.
    with (
        unfinished.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=5, fileobj=raw, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        _add(archive, "bin/python", _LAUNCHER.encode(), mode=0o755)
        for name, path in files.items():
            _add(archive, f"{_SITE_PACKAGES}/{name}", path.read_bytes(), mode=0o644)
    unfinished.replace(output)
    return output.stat().st_size


def closure(requirements: Iterable[str]) -> list[Distribution]:
    """Return the installed distributions that `requirements` name, and all that those need here, by name."""
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
        # A licence at the top that two distributions wrote is gone when one of them has been updated.
        if here.is_file():
            yield str(path), here


def _add(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int) -> None:
    """Add a file without anything that differs between two machines: owner, time, mode."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    archive.addfile(member, io.BytesIO(content))
