"""A disk is full: that of the warehouse, of temporary files, or of Spark's own files; whoever makes room goes on.

The command gives who may not mount a file system a user namespace in which that is allowed (`unshare`, Linux).
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from unittest import mock

from jobs.errors import EXIT_DISK_FULL, EXIT_OK
from jobs.ingest import staging
from tests.ingest.given import piece
from tests.night.nights import night, nightly
from tests.places import CHECKOUT
from tests.torture.flips import Given, answers, given

PLACES = ("warehouse", "rows of a capture", "temporary files", "Spark's files")


@cache
def captured() -> Given:
    """Return no warehouse, with a capture that a night reads."""
    folder = Path(mkdtemp(prefix="namesrv-disks-"))
    late = piece(folder / "a.pcap", 0, 3_000)
    return Given(folder / "none", late, [], dict(night(folder / "again", late).digests))


def disk(seed: int, folder: Path) -> tuple[str, str]:
    """Run a night with little room in one of three places, then again with enough."""
    dice, place = random.Random(seed), PLACES[seed % len(PLACES)]
    known = captured() if place == "rows of a capture" else given()
    path = Path(folder, "w")
    with small_disk(folder / "small") as small:
        if place in PLACES[:2]:
            path = small / "w"
        if known.answers:
            shutil.copytree(known.path, path)
        room = dice.choice((0, 1, 4, 16, 64, dice.randrange(400))) << 10
        resize(small, max(used(small) + room, 4096))
        code, said = _night(place, path, small, known)
        wrong = []
        if code not in (EXIT_OK, EXIT_DISK_FULL) or "Traceback" in said:
            wrong.append(f"exit code {code}: {said}")
        elif code == EXIT_DISK_FULL and ("disk of" not in said or "is full" not in said):
            wrong.append(f"names no disk: {said}")
        resize(small, 1 << 28)
        is_published = code == EXIT_OK or "is published all the same" in said
        if not is_published and known.answers and answers(path) != known.answers:
            wrong.append("readers see something of a night that failed")
        if dict(night(path, known.late).digests) != known.digests:
            wrong.append("the next night publishes other tables")
    outcome = "silent" if wrong else "refused" if code else "survived"
    return outcome, f"{room:,} bytes left for {place}: {' | '.join(wrong) or said.strip()[-200:]}"


def _night(place: str, path: Path, small: Path, known: Given) -> tuple[int, str]:
    """Run a night as users do; return its exit code, and what it says on its error output."""
    if place == "Spark's files":
        words = ("nightly", "--conf", f"spark.local.dir={small}", "--warehouse", str(path), "--input", str(known.late))
        command = [str(CHECKOUT / "spark-submit.sh"), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr
    said = io.StringIO()
    with contextlib.ExitStack() as stack:
        if place == "rows of a capture":  # they are written while it is read, not at its end alone
            stack.enter_context(mock.patch.object(staging, "_PENDING_BYTES", 1 << 12))
        if place == "temporary files":
            stack.enter_context(mock.patch.object(tempfile, "tempdir", str(small)))
            stack.enter_context(mock.patch.dict(os.environ, {"TMPDIR": str(small)}))
        stack.enter_context(contextlib.redirect_stderr(said))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        code = nightly(path, "--input", known.late)
    return code, said.getvalue()


@contextmanager
def small_disk(folder: Path, size: int = 1 << 28) -> Iterator[Path]:
    """Give a folder on a disk of its own. Raises CalledProcessError where mounting is not allowed."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def resize(folder: Path, size: int) -> None:
    """Make a disk smaller or larger."""
    subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)


def used(folder: Path) -> int:
    """Return how many bytes of a disk are used."""
    found = os.statvfs(folder)
    return (found.f_blocks - found.f_bfree) * found.f_frsize
