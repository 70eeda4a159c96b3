"""Break things on purpose: `./spark-submit.sh torture NAME --seeds N`.

Each seed is one fault; a failing one is printed, and `--seed S` does it again. What comes of a fault: it `survived` (the answer
is that of an undisturbed run), it was `refused` (with what is wrong named), `unverified` (so, too, but a question without
--verified, which does not compare, gave another answer), or it was `silent`: another answer without a word, or a stack trace.
Exit codes: 0 nothing was silent; 1 something was; 2 usage.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

from jobs.store.check import check
from tests.boundaries import nightly_killed_at
from tests.ingest.given import warehouse_at
from tests.night.nights import night
from tests.store.tiny import linked
from tests.torture.bugs import bugs
from tests.torture.disks import disk
from tests.torture.flips import flip, given
from tests.torture.simulation import simulation
from tests.torture.soak import soak
from tests.torture.writers import writers

Outcome = tuple[str, str]
Torture = Callable[[int, Path], Outcome]


def rewrite(seed: int, folder: Path) -> Outcome:
    """Rewrite what was published, with every right and our own code; who has kept a checkpoint sees it."""
    from tests.torture.rewrites import KINDS, rewrite  # noqa: PLC0415  each kind needs its own, some of it slow to load

    said = rewrite(seed, folder)
    return ("refused" if said else "silent"), f"{KINDS[seed % len(KINDS)].__name__}: {said}"


def cuts(seed: int, folder: Path) -> Outcome:
    """Days at random, told in nights at random, late and twice: the tables are those of everything at once."""
    from tests.night.test_cuts import test_no_table_tells_in_which_nights_days_were_told as cut  # noqa: PLC0415

    cut(folder, seed)
    return "survived", ""


def kill(seed: int, folder: Path) -> Outcome:
    """A night is killed (SIGKILL) before or after a commit, or at any instant; the next one publishes what it would have.

    Every other seed takes an instant, the others one boundary after the other. Every tenth also judges with Great Expectations and
    draws pages, which takes as long as all else.
    """
    dice, known = random.Random(seed), given()
    path = linked(known.path, folder / "w")
    point = "" if seed % 2 else known.points[seed // 2 % len(known.points)]
    # Processes of one that has read all modules, and done nothing.
    forks = get_context("forkserver")
    forks.set_forkserver_preload(
        ["tests.conftest", "jobs.night.nightly", "jobs.night.expectations", "tests.torture.__main__"]
    )
    child = forks.Process(target=nightly_killed_at, args=(point, path, known.late), kwargs={"is_whole": seed % 10 == 0})
    child.start()
    child.join(60 if point else dice.uniform(0.1, 3))
    if child.exitcode is None:
        point = "some instant"
        child.kill()
        child.join()
    if child.exitcode not in (0, -signal.SIGKILL):
        return "silent", f"{point}: the night ended by itself, with {child.exitcode}"
    again = night(path, known.late)
    wrong = check(warehouse_at(path)).wrong if seed % 5 == 0 else []
    shutil.rmtree(path)
    if dict(again.digests) != known.digests or wrong:
        return "silent", f"killed at {point}: other tables, or {wrong}"
    return "survived", f"{'killed' if child.exitcode else 'went by'} {point or 'the instant'}"


def fuzz(seed: int, folder: Path) -> Outcome:
    """Twenty thousand hostile inputs to the decoders and parsers."""
    from tests.wire.fuzz.__main__ import main  # noqa: PLC0415

    return ("silent" if main(["--inputs", "20000", "--seed", str(seed), "--findings", str(folder)]) else "survived"), ""


def differential(seed: int, _: Path) -> Outcome:
    """Twenty thousand events through RocketMQ's own classes of both generations and ours."""
    from tests.oracle.__main__ import main  # noqa: PLC0415

    return ("silent" if main(["--events", "20000", "--seed", str(seed)]) else "survived"), ""


def late(seed: int, folder: Path) -> Outcome:
    """Lines late, twice, shuffled, in uneven files, with clocks that step: each state is that of the orderly log."""
    from tests.wire.test_lateness import late  # noqa: PLC0415

    return late(seed, folder)


def cluster(seed: int, folder: Path) -> Outcome:
    """An executor, a worker or the driver of a night on a standalone cluster is killed at a random instant."""
    from tests.torture.clusters import cluster  # noqa: PLC0415

    return cluster(seed, folder)


ALL = (flip, rewrite, simulation, cuts, kill, writers, late, disk, soak, cluster, bugs, fuzz, differential)
KINDS: dict[str, Torture] = {one.__name__: one for one in ALL}


def main(arguments: list[str]) -> int:
    """Do what was asked for, seed after seed, and print the counts."""
    told = "\n".join(f"  {name:<14} {(one.__doc__ or '').splitlines()[0]}" for name, one in KINDS.items())
    parser = argparse.ArgumentParser(
        "torture", None, f"{__doc__}\n\n{told}", formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("name", choices=KINDS)
    parser.add_argument("--seeds", type=int, help="how many (default: 100; with --seed, 1)")
    parser.add_argument("--seed", type=int, help="this one, or the first of those")
    given = parser.parse_args(arguments)
    logging.disable(logging.WARNING)
    counts, first = Counter[str](), given.seed or 0
    seeds = range(first, first + (given.seeds or (100 if given.seed is None else 1)))
    # Whoever ends it early is told how far it came; a seed is not interrupted, since that would be a fault of its own.
    is_ended = list[int]()
    before = signal.signal(signal.SIGTERM, lambda number, _: is_ended.append(number))
    with tempfile.TemporaryDirectory(prefix="namesrv-torture-") as root:
        for seed in seeds:
            if is_ended:
                break
            folder = Path(root, f"seed-{seed}")
            folder.mkdir()
            try:
                outcome, said = KINDS[given.name](seed, folder)
            except Exception:  # noqa: BLE001  whatever it is, it is a finding
                outcome, said = "silent", traceback.format_exc()
            counts[outcome] += 1
            if outcome == "silent" or len(seeds) == 1:
                print(f"seed {seed}: {outcome}: {said}", flush=True)
    signal.signal(signal.SIGTERM, before)
    print(f"{given.name}: {sum(counts.values()):,} tried, {', '.join(f'{counts[name]:,} {name}' for name in OUTCOMES)}")
    return 1 if counts["silent"] else 0


OUTCOMES = ("survived", "refused", "unverified", "silent")

if __name__ == "__main__":
    if sys.argv[1:2] == ["disk"] and os.geteuid():  # only root mounts disks
        may = ("unshare", "--map-root-user", "--mount")
        os.execvp(may[0], [*may, sys.executable, "-m", "tests.torture", *sys.argv[1:]])
    sys.exit(main(sys.argv[1:]))
