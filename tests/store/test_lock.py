"""One run at a time, and a full disk told from other failures."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake.exceptions import DeltaError

from jobs.errors import (
    EXIT_BUSY,
    EXIT_DISK_FULL,
    EXIT_GATE,
    EXIT_TAMPERED,
    EXIT_USAGE,
    BrokenLogError,
    ConfError,
    GateError,
    UsageError,
    WarehouseBusyError,
    full_disk,
    known_failure,
    not_allowed,
)
from jobs.store.places import locked, read_locked, temporary_folder
from tests.places import CHECKOUT
from tests.store.tiny import DAY, NUMBERS, put, warehouse_at


def test_a_second_run_is_told_who_is_writing(tmp_path: Path) -> None:
    """Also in the same process; once the first has ended, however, the next may."""
    with (
        locked(str(tmp_path)),
        pytest.raises(WarehouseBusyError, match=f"process {os.getpid()} on .* is writing"),
        locked(str(tmp_path)),
    ):
        pass
    with locked(str(tmp_path)):
        pass


def test_a_process_that_is_dead_is_not_named(tmp_path: Path) -> None:
    """A child may hold the lock of one that has ended: the file's text is no evidence; nothing is left of a run that ends."""
    with locked(str(tmp_path)):
        pass
    assert (tmp_path / ".lease").read_text(encoding="utf-8") == ""
    with subprocess.Popen(["true"]) as process:
        pass
    with (tmp_path / ".lease").open("w", encoding="utf-8") as file:
        file.write(f"process {process.pid} on {socket.gethostname()}\n")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(WarehouseBusyError, match="another run, or a check, is at work on"), locked(str(tmp_path)):
            pass


def test_who_checks_keeps_runs_out_and_no_other_check(tmp_path: Path) -> None:
    """Also on a warehouse that was never written to, in which it leaves nothing."""
    with read_locked(str(tmp_path)):
        assert list(tmp_path.iterdir()) == []
    with locked(str(tmp_path)):
        pass
    with (
        read_locked(str(tmp_path)),
        read_locked(str(tmp_path)),
        pytest.raises(WarehouseBusyError, match="a check, is at work"),
        locked(str(tmp_path)),
    ):
        pass
    with locked(str(tmp_path)), pytest.raises(WarehouseBusyError, match="is writing to"), read_locked(str(tmp_path)):
        pass


def test_a_folder_that_cannot_be_written_is_a_usage_error(small_disk: Path) -> None:
    """Whoever writes is told so; who reads is not kept from it."""
    with locked(str(small_disk)):
        pass
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for folder in (small_disk, small_disk / "new"):
        with pytest.raises(UsageError, match=f"{folder}: cannot be written: Read-only"), locked(str(folder)):
            pass
    with read_locked(str(small_disk)):
        pass
    assert not_allowed(DeltaError("Generic error: x: Read-only file system (os error 30)")) is not None
    assert not_allowed(OSError(errno.ENOENT, "No such file or directory")) is None


def test_the_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    """The system takes it back."""
    code = f"import os; from jobs.store.places import locked\nwith locked({str(tmp_path)!r}): os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    with locked(str(tmp_path)):
        pass


def test_what_a_killed_process_has_left_among_temporary_files_goes_with_the_next_run(tmp_path: Path) -> None:
    """The folder of one that lives stays, however old it is, and so does a new one, which its process may not hold yet."""
    code = "import os; from jobs.store.places import temporary_folder\n"
    code += "with temporary_folder('inputs') as made: (made / 'x').touch(), print(made, flush=True), os.kill(os.getpid(), 9)"
    here = {**os.environ, "TMPDIR": str(tmp_path)}
    left, new = (
        Path(subprocess.run([sys.executable, "-c", code], env=here, stdout=-1, text=True, check=False).stdout.strip())
        for _ in range(2)
    )
    pipe = tmp_path / "namesrv-inputs-pipe"
    os.mkfifo(pipe)  # somebody else's, which nobody writes
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tempfile.tempdir", str(tmp_path))
        with temporary_folder("inputs") as held:
            for folder in (left, held):
                os.utime(folder, (0, 0))
            with temporary_folder("inputs"):
                assert [folder.exists() for folder in (left, new, held)] == [False, True, True]
        assert {*tmp_path.iterdir()} == {new, pipe}


def test_a_full_disk_is_told_from_other_failures(tmp_path: Path) -> None:
    """The sentence names the folder whose disk is full, however deep the cause lies; other errors are none of its business."""
    error = RuntimeError("the task failed")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "gold" / "part-0"))
    said = full_disk(error, str(tmp_path))
    assert said is not None
    assert said.startswith(f"the disk of {tmp_path} (")
    assert full_disk(DeltaError(f"Generic error: {tmp_path}/x: No space left on device (os error 28)"), str(tmp_path))
    assert full_disk(OSError(errno.EDQUOT, "Disk quota exceeded", str(tmp_path / "x")), str(tmp_path)) == said
    assert full_disk(OSError(errno.EACCES, "Permission denied"), str(tmp_path)) is None


def test_a_full_disk_behind_the_output_is_not_that_of_the_warehouse() -> None:
    """What could not be written is named: standard output."""
    with Path("/dev/full").open("wb") as full:
        job = [sys.executable, "-m", "jobs", "reference"]
        done = subprocess.run(job, cwd=CHECKOUT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == EXIT_DISK_FULL
    assert done.stderr.startswith("namesrv-history: the disk of <stdout> (0 MiB free) is full. Nothing was published")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a folder on a disk of a megabyte; only who may mount can have one."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if done.returncode:
        pytest.skip("mounting a file system is not allowed here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_fills_up_is_named_by_rows_and_by_commits(small_disk: Path) -> None:
    """Whether the rows or the log find no more room; what was committed before stays."""
    warehouse = warehouse_at(small_disk)
    put(warehouse, NUMBERS, DAY, {"n": 1})
    warehouse.commit()
    with pytest.raises(OSError, match="No space left") as of_rows:
        put(warehouse, NUMBERS, DAY, *({"n": n, "text": os.urandom(20).hex()} for n in range(60_000)))
    with (small_disk / "filler").open("wb", buffering=0) as filler:
        warehouse.replace(NUMBERS, [DAY], [])
        with pytest.raises(OSError, match="No space"):  # noqa: PT012  as much as goes in
            while True:
                filler.write(bytes(4096))
    with pytest.raises(Exception, match="No space left") as of_log:
        warehouse.commit()
    for error in (of_rows.value, of_log.value):
        said, code = known_failure(error, str(small_disk)) or ("", 0)
        assert re.match(f"the disk of {small_disk} ", said)
        assert code == EXIT_DISK_FULL
    assert warehouse_at(small_disk).rows(NUMBERS).column("n").to_pylist() == [1]


def test_every_known_failure_has_its_exit_code() -> None:
    """By its class; files that are not there are a matter of usage, everything else is a failure."""
    codes = {
        ConfError: EXIT_USAGE,
        WarehouseBusyError: EXIT_BUSY,
        BrokenLogError: EXIT_TAMPERED,
        FileNotFoundError: EXIT_USAGE,
    }
    assert {kind: (known_failure(kind("x"), None) or ("", 0))[1] for kind in codes} == codes
    assert known_failure(KeyError("x"), None) is None
    assert known_failure(GateError("a rule"), None) == (
        "the quality gate refused: a rule. Nothing was published.",
        EXIT_GATE,
    )
