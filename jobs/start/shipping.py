"""What executors elsewhere need: they have neither this checkout nor its environment.

The packages travel as one zip, with their data files. The environment is packed once for each lock, unless the user brings one:
an archive that is unpacked as `environment`, or a Python that is installed there.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

from jobs.start.options import CommandLine
from jobs.start.pack import PYPROJECT, pack
from schemas import asked

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGES = ("jobs", "namesrv_core", "namesrv_day", "namesrv_wire", "schemas")
_ENVIRONMENT = "environment"


def zip_packages(checkout: Path, target: Path) -> None:
    """Write modules and data files of all packages, without what Python makes beside them."""
    asked.names()  # what is translated is kept, and travels
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for path in sorted((checkout / package).rglob("*")):
                parts = path.relative_to(checkout).parts
                if path.is_file() and path.suffix != ".pyc" and not any(part.startswith(".") for part in parts):
                    archive.write(path, Path(*parts))


def options_for_executors(line: CommandLine, venv: Path, packages: Path) -> tuple[list[str], str]:
    """Return options of spark-submit that ship code and environment, and the Python of executors. `packages`: the zip."""
    theirs = line.given.get("--archives")
    python = line.given.get("spark.pyspark.python")
    options = ["--conf", f"spark.pyspark.driver.python={venv}/bin/python"]
    archives = [theirs] if theirs else []
    if python is None:
        python = f"./{_ENVIRONMENT}/bin/python"
        options += ["--conf", f"spark.pyspark.python={python}"]
        if f"#{_ENVIRONMENT}," not in f"{theirs},":
            archives.insert(0, f"{packed_environment(venv)}#{_ENVIRONMENT}")
    if archives:
        options += ["--archives", ",".join(archives)]
    return [*options, "--py-files", ",".join(filter(None, [str(packages), line.given.get("--py-files")]))], python


def packed_environment(venv: Path) -> Path:
    """Return the archive of the environment, made anew when the lock has changed."""
    archive = venv.with_name(f"{venv.name}.packed.tar.gz")
    marker = archive.with_name(f"{archive.name}.lock-sha256")
    lock = (venv / ".lock-sha256").read_text(encoding="utf-8")
    if not (archive.exists() and marker.exists() and marker.read_text(encoding="utf-8") == lock):
        pack(PYPROJECT, archive)
        marker.write_text(lock, encoding="utf-8")
    return archive
