"""The second pass over a day: name servers' days are settled, and carried to their ends where that needs nobody else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.night.judging import JudgedTogether, JudgeWork, judge_namesrvs
from jobs.night.work import NamesrvSettled, NamesrvWork, PackReplayed, PackWork, replay_units, settled_of


@dataclass(frozen=True)
class Settled:
    """What a name server's day came to; `replayed`: None where packs are replayed by tasks of their own."""

    settled: NamesrvSettled
    replayed: PackReplayed | None = None


@dataclass(frozen=True)
class SettledTogether:
    """What the days of some name servers came to; `judged`: those that were replayed."""

    days: list[Settled]
    judged: JudgedTogether


def settle_namesrvs(work: Sequence[JudgeWork]) -> SettledTogether:
    """Settle the days of some name servers, and plan their replay: the task of the pass.

    A day of an only pack is replayed and judged at once, unless earlier days may go first.
    """
    days = [_settled(one.of) for one in work]
    behind = [
        one.behind(of.settled, [of.replayed]) for one, of in zip(work, days, strict=True) if of.replayed is not None
    ]
    return SettledTogether(days, judge_namesrvs(behind))


def _settled(work: NamesrvWork) -> Settled:
    settled = settled_of(work)
    if len(settled.packs) != 1 or settled.reconsidered_since is not None:
        return Settled(settled)
    return Settled(settled, replay_units(PackWork(settled, settled.packs[0][0])))
