"""A night: the passes over its days, in order. Until `commit` no table has changed.

condense (all days at once) -> for each day: settle -> replay -> judge
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from jobs.night.condensing import Condensed, condensed
from jobs.night.judging import FLAGS, OUTCOMES, VERIFY, WRITES, JudgeWork, judge_namesrv
from jobs.night.opened import Files, files_of
from jobs.night.passes import Passes
from jobs.night.work import (
    REPLAYED,
    NamesrvSettled,
    NamesrvWork,
    PackReplayed,
    PackWork,
    replay_units,
    settle_namesrv,
)
from jobs.store.warehouse import DATA_TABLES, Warehouse, days_of
from namesrv_day.digest import Digest, Slice
from namesrv_day.rows import empty
from schemas import bronze, gold
from schemas.times import day_of

log = logging.getLogger(__name__)
_ONE_DAY = dt.timedelta(days=1)
# How far back a scan's packet tells when the timer ticks.
_PHASE_MEMORY = dt.timedelta(days=7)
_SCAN_LIFE = ("scan_failed", "started", "stopped")
_BEGINNINGS = ("started", "observed_from")
_CARRIED = (*gold.HISTORY_TABLES, gold.PAST_KNOWLEDGE)
# Below, a name server's day is one pack: it takes less than a task does.
_ROWS_PER_PACK = 20_000
# So many packs for each core: the last ones to end are small.
_ROUNDS = 2
_RECORDED = frozenset(table.name for table in bronze.RECORDED_TABLES)
_EVENTS = frozenset(table.name for table in bronze.EVENT_TABLES)
_IS_BEGINNING = pc.field("kind").isin(_BEGINNINGS)


class Night:
    """The days of one run. `Warehouse` knows what it has changed so far."""

    def __init__(self, house: Warehouse, passes: Passes) -> None:
        self._house, self._passes = house, passes
        self._read = Condensed()
        self._condensed: set[dt.date] = set()
        self.replayed: set[dt.date] = set()
        self.outputs: dict[Slice, Digest] = {}

    # -- condense ------------------------------------------------------------------------------------------------------

    def condense(self, days: Sequence[dt.date], starts: Collection[dt.date] = ()) -> Condensed:
        """Read what is recorded on days, and the gold slices of `starts`; return all that was read so far."""
        fresh = [day for day in days if day not in self._condensed]
        if fresh or starts:
            self._read.add(condensed(self._house, self._passes, fresh, starts))
            self._condensed.update(fresh)
        return self._read

    # -- replay --------------------------------------------------------------------------------------------------------

    def replay(self, day: dt.date, parts: Iterable[str] = (OUTCOMES, FLAGS, VERIFY)) -> list[dt.date]:
        """Settle a day, replay its packs, and judge it; `parts`: of the judgement.

        If earlier days must be replayed before, only the day's settings are noted, and those days returned.
        """
        self.condense([day])
        settled = self._passes.each(settle_namesrv, list(self._namesrvs(day)))
        for table in (gold.NAMESRV_SETTINGS, gold.ORDER_DECISIONS):
            self._house.replace(table, [day], [file for done in settled for file in done.files[table.name]])
        since = min((s.reconsidered_since for s in settled if s.reconsidered_since is not None), default=None)
        if since is not None:
            earlier = [d for d in days_of(self._house.recorded(), first=day_of(since // 1_000)) if d < day]
            if earlier:
                return earlier
        packs = self._replay_packs(day, settled)
        self._judge(day, settled, packs, frozenset(parts))
        self.replayed.add(day)
        return []

    def _namesrvs(self, day: dt.date) -> Iterator[NamesrvWork]:
        """Yield what is to be settled: each name server that was heard of on the day, or whose state is carried through it."""
        house = self._house
        start = self.start_of(day)
        starts = [] if start is None else [start]
        heard = {cut.namesrv_id: 0 for cut in self._read.digests if cut.day == day and cut.table in _RECORDED}
        for cut, digest in self._read.digests.items():
            if cut.day == day and cut.namesrv_id in heard:
                heard[cut.namesrv_id] += digest.rows
        settings = house.rows(gold.NAMESRV_SETTINGS, starts) if starts else empty(gold.NAMESRV_SETTINGS)
        later = house.rows(gold.NAMESRV_SETTINGS, days_of(house.recorded(), first=day + _ONE_DAY))
        scan_life = self._scan_life(day, start)
        today = files_of(house, [*(t for t in bronze.TABLES if t.partition_by), bronze.TOPIC_CONFIGS_TABLE], [day])
        before = files_of(house, _CARRIED, starts)
        ever = self._ever(day)
        names = sorted({name for name in heard if name is not None} | set(settings["namesrv_id"].to_pylist()))
        going_on = house.going_on(names, day)
        begun = set(ever.rows(bronze.NAMESRV_EVENTS, ["namesrv_id"], _IS_BEGINNING)["namesrv_id"].to_pylist())
        for name in names:
            own = pc.field("namesrv_id") == name
            yield NamesrvWork(
                name,
                day,
                house.run_id,
                today,
                before,
                ever,
                self._read.hours.get(day, ()),
                settings.filter(own),
                later.filter(own),
                scan_life.filter(own),
                house.conf.given(name),
                None if name in begun else self._first_seen(name),
                name in going_on,
                self._packs(heard.get(name, 0), sum(heard.values())),
                house.conf.quiet_road is not False,
                f"{house.staging}/{day}",
            )

    def start_of(self, day: dt.date) -> dt.date | None:
        """Return the last day before `day` that was replayed; every name server's state is carried through each such day."""
        written = {
            file.day for file in self._house.files(gold.NAMESRV_SETTINGS) if file.day is not None and file.day < day
        }
        return max(written, default=None)

    def _scan_life(self, day: dt.date, start: dt.date | None) -> pa.Table:
        """Return the outcomes that tell whether periodic scans still run when `day` begins.

        What ended a scan for good may have happened on any day before, and so what began another; the ledger knows the days.
        """
        if start is None:
            return empty(gold.EVENT_OUTCOMES)
        ledger = self._house.ledger()
        unpublished = {d for d in days_of(self._house.recorded()) if d not in ledger.days} | self.replayed
        failed = min((d for d in ledger.halting_days if d < day), default=day)
        days = {d for d in ledger.scan_days if failed <= d < day}
        first = min({start, *unpublished})
        days |= {d for d in days_of(self._house.recorded(), first=first) if d < day}
        return self._house.rows(gold.EVENT_OUTCOMES, days, None, pc.field("outcome").isin(_SCAN_LIFE))

    def _ever(self, day: dt.date) -> Files:
        """Return what tells when name servers began and when their scans tick."""
        house, week = self._house, [day - _ONE_DAY * n for n in range(_PHASE_MEMORY.days + 1)]
        until = [d for d in days_of(house.recorded()) if d <= day]
        named = {table.name: tuple(house.files(table, until)) for table in (bronze.NAMESRV_EVENTS, bronze.SNAPSHOTS)}
        return Files(house.path, {**named, bronze.CHANNEL_EVENTS.name: tuple(house.files(bronze.CHANNEL_EVENTS, week))})

    def _first_seen(self, name: str) -> int | None:
        """Return the position of a name server's first recorded event."""
        cuts = {**self._house.slices_in_force(), **self._read.digests}
        days = {cut.day for cut in cuts if cut.namesrv_id == name and cut.table in _EVENTS}
        own, first = pc.field("namesrv_id") == name, [min(days)] if days else []
        rows = (self._house.rows(table, first, ["seq"], own)["seq"] for table in bronze.EVENT_TABLES)
        return min((seq for seqs in rows if (seq := pc.min(seqs).as_py()) is not None), default=None)

    def _packs(self, rows: int, of_all: int) -> int:
        """Return in how many packs a name server's day is replayed: its share of what keeps all cores busy."""
        wanted = -(-self._passes.width * _ROUNDS * rows // max(of_all, 1))
        return max(1, min(wanted, -(-rows // _ROWS_PER_PACK)))

    def _replay_packs(self, day: dt.date, settled: Sequence[NamesrvSettled]) -> list[PackReplayed]:
        heaviest = sorted(((weight, of, pack) for of in settled for pack, weight in of.packs), key=lambda one: -one[0])
        work = [PackWork(of, pack) for _, of, pack in heaviest]
        done = self._passes.each(replay_units, work)
        for table in REPLAYED:
            self._house.replace(table, [day], [file for pack in done for file in pack.files[table.name]])
        return done

    def _judge(
        self, day: dt.date, settled: Sequence[NamesrvSettled], packs: Sequence[PackReplayed], parts: frozenset[str]
    ) -> None:
        """Judge a day that was replayed."""
        house = self._house
        slices = files_of(house, DATA_TABLES, [day])
        start = self.start_of(day)
        told = [d for d in days_of(house.recorded()) if d < day]
        of_before = files_of(house, (gold.FINDINGS, gold.EXPIRED_BROKERS), told)
        last = files_of(house, [gold.ORPHANED_TOPICS], [start] if start else [])
        before = Files(house.path, {**of_before.named, **last.named})
        work = [
            JudgeWork(
                of.work,
                of.context.namesrv,
                parts,
                slices,
                tuple(pack.stashed for pack in packs if pack.namesrv_id == of.work.namesrv_id),
                before,
            )
            for of in settled
        ]
        judged = self._passes.each(judge_namesrv, work)
        for table in (table for part in sorted(parts) for table in WRITES[part]):
            house.replace(table, [day], [file for done in judged for file in done.files[table.name]])
        for done in judged:
            self.outputs.update(done.digests)
