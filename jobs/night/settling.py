"""The second pass over a day, a task a name server: its day is settled, and carried to its end where that needs nobody else."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.night.judging import Judged, JudgeWork, judge_namesrv
from jobs.night.work import NamesrvSettled, PackReplayed, PackWork, replay_units, settled_of


@dataclass(frozen=True)
class Settled:
    """What a name server's day came to; `replayed`, `judged`: None where packs are replayed by tasks of their own."""

    settled: NamesrvSettled
    replayed: PackReplayed | None = None
    judged: Judged | None = None


def settle_namesrv(work: JudgeWork) -> Settled:
    """Settle one name server's day, and plan its replay: the task of the pass.

    A day of an only pack is replayed and judged at once, unless earlier days may go first.
    """
    settled = settled_of(work.of)
    if len(settled.packs) != 1 or settled.reconsidered_since is not None:
        return Settled(settled)
    replayed = replay_units(PackWork(settled, settled.packs[0][0]))
    return Settled(settled, replayed, judge_namesrv(work.behind(settled, [replayed])))
