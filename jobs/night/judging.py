"""The fourth pass over a day, a task a name server: what its slices say together, while they are in memory.

Outcomes of its packs become one table; flags are raised, answers held against the histories, rules counted, digests taken; and
of a day that was published before it is told what is different now.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from jobs.night import stash
from jobs.night.opened import TABLES, Files
from jobs.night.work import NamesrvWork, hours_of, raw_beats, topic_configs, written
from jobs.store.files import DataFile
from namesrv_core.machine.profile import Namesrv
from namesrv_day.digest import Digest, Slice, slices_of
from namesrv_day.findings import first_versions
from namesrv_day.flags import FlagInput, flag
from namesrv_day.pack import merged_outcomes
from namesrv_day.verify import VerifyInput, verdicts
from schemas import bronze, gold

OUTCOMES, FLAGS, VERIFY = "outcomes", "flags", "verify"
FLAGGED = (gold.ROUTE_CHANGES, gold.EXPIRED_BROKERS, gold.ORPHANED_TOPICS, gold.FINDINGS)
VERIFIED = (gold.ANSWER_CHECKS, gold.ROUTE_MISMATCHES)
WRITES = {OUTCOMES: (gold.EVENT_OUTCOMES,), FLAGS: FLAGGED, VERIFY: VERIFIED}
"""The tables whose slices each part of the pass writes."""
_SLICES = (*gold.HISTORY_TABLES, *gold.REPORT_TABLES)


@dataclass(frozen=True)
class JudgeWork:
    """One name server's day. `parts`: what is to be made; the other slices are read as they are.

    `slices`: files of the day's gold tables; `outcomes`: where packs stashed their parts of event_outcomes; `told`: files of
    findings and expired_brokers of days before, and of orphaned_topics of the last one.
    """

    of: NamesrvWork
    namesrv: Namesrv
    parts: frozenset[str]
    slices: Files
    outcomes: tuple[str, ...]
    told: Files


@dataclass(frozen=True)
class Judged:
    """What was judged: files that were written, digests of all of the day's gold slices, what is compared across name servers."""

    namesrv_id: str
    files: dict[str, tuple[DataFile, ...]]
    digests: dict[Slice, Digest]
    versions: pa.Table


def judge_namesrv(work: JudgeWork) -> Judged:
    """Judge one name server's day: the task of the pass."""
    of = work.of
    slices = {table.name: work.slices.of(of.namesrv_id).rows(table) for table in _SLICES}
    today = of.today.of(of.namesrv_id)
    made: dict[str, pa.Table] = {}
    if OUTCOMES in work.parts:
        made[gold.EVENT_OUTCOMES.name] = (
            merged_outcomes([stash.take(work.outcomes, "outcomes")])
            if work.outcomes
            else slices[gold.EVENT_OUTCOMES.name]
        )
    slices |= made
    if FLAGS in work.parts:
        events = {bronze.NAMESRV_EVENTS.name: today.rows(bronze.NAMESRV_EVENTS), "hours": hours_of(of)}
        told = work.told.of(of.namesrv_id).frames([gold.FINDINGS, gold.EXPIRED_BROKERS, gold.ORPHANED_TOPICS])
        made |= flag(
            FlagInput(
                of.namesrv_id,
                work.namesrv,
                of.day,
                {**slices, **events},
                partial(raw_beats, of),
                partial(topic_configs, of.today),
                told,
            )
        )
    if VERIFY in work.parts:
        recorded = (bronze.ROUTE_OBSERVATIONS, bronze.UNREGISTRATIONS, bronze.ADMIN_EVENTS)
        answered = {table.name: today.rows(table) for table in recorded}
        found = verdicts(VerifyInput(of.namesrv_id, of.day, work.namesrv, answered, partial(raw_beats, of), slices))
        made |= {gold.ANSWER_CHECKS.name: found.answer_checks, gold.ROUTE_MISMATCHES.name: found.route_mismatches}
    slices |= made
    digests = {cut: digest for name, rows in slices.items() for cut, digest in slices_of(name, rows).items()}
    versions = first_versions(slices[gold.DATA_VERSION_HISTORY.name], of.day)
    return Judged(of.namesrv_id, written(of, {TABLES[name]: rows for name, rows in made.items()}), digests, versions)
