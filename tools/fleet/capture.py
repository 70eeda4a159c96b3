"""Write what a simulated fleet and its clients say as packet captures, and the truth about what was planted.

A day is made window by window: the beats and questions of a window are laid out in order of time, each name server takes them
with the core, and what it and the others send is sorted and written. Memory holds a window, the connections and the registries,
however long the capture is.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from jobs.errors import FleetError
from namesrv_core.machine.instants import NS_PER_US
from schemas.times import day_start_us
from tools.fleet.asking import ANEW, WRONG, Forms, Traffic, client_endpoint, questions_of
from tools.fleet.draws import PPM, draw
from tools.fleet.events import broker_endpoint, instants, told_versions
from tools.fleet.fleet import HOURS_PER_DAY, US_PER_S, Fleet
from tools.fleet.frames import Beats
from tools.fleet.packets import NS_PER_S, Packet
from tools.fleet.plan import KINDS, PARTITION, Holes, Plan, beats_of, plan_of, restarts_of
from tools.fleet.plan import Beats as Sent
from tools.fleet.rotated import Rotated
from tools.fleet.serving import Serving
from tools.fleet.truth import holes_from

# Beats and questions that are made at once.
_AT_A_TIME: Final = 40_000
# What belongs to a window comes at most so long before it: late segments, and handshakes.
_REACH_NS: Final = NS_PER_S
_STOP, _START, _REFUSE, _BEAT, _ASK = range(5)
_NEVER_NS: Final = 1 << 62
_ATTEMPT_US, _ATTEMPT_PORT = US_PER_S // 2, 40_000
_WRONG: Final = (b'"perm":6', b'"perm":4')
Columns = tuple[npt.NDArray[Any], ...]
Question = tuple[int, int, int, int, int, int]
"""A client's question: an entry of `Questions`."""


@dataclass
class Captured:
    """What was written: packets by file; how many beats, questions, wrong answers and holes there are in them."""

    packets: dict[str, int] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


def capture(fleet: Fleet, traffic: Traffic, days: Sequence[dt.date], files: Sequence[Path], truth: Path) -> Captured:
    """Write captures of the fleet on consecutive days, each of `files` an equal part of the time, and the planted truth.

    If the first of the days is not the fleet's first, the capture begins in mid-life: what came before is made, too, but not
    written. The same options give the same bytes. Raises FleetError for a fleet whose events come late or twice, and UsageError
    for a file that cannot be written.
    """
    if not days:
        raise FleetError("days 0: at least one")
    if len({path.resolve() for path in (*files, truth)}) <= len(files):
        raise FleetError("captures: each file once, and none is truth.jsonl")
    if fleet.late or fleet.duplicates:
        raise FleetError("late or duplicate events: a capture has none")
    from_ns, until_ns = (day_start_us(day) * NS_PER_US for day in (days[0], days[-1] + dt.timedelta(days=1)))
    with Rotated(files, truth, from_ns, until_ns) as written:
        if days[0] == fleet.start:
            written.begin_before(from_ns - NS_PER_S)
        recording = _Recording(fleet, traffic, written, days)
        for number in range(fleet.number_of(days[-1]) + 1):
            recording.day(fleet.start + dt.timedelta(days=number))
        recording.flush(_NEVER_NS)
    packets = {str(path): count for path, count in zip(files, written.packets, strict=True)}
    return Captured(packets, recording.counts + written.told)


class _Recording:
    """The fleet's name servers while they are recorded."""

    def __init__(self, fleet: Fleet, traffic: Traffic, written: Rotated, days: Sequence[dt.date]) -> None:
        self._fleet, self._traffic, self._written, self._days = fleet, traffic, written, days
        self._beats, self._forms = Beats(fleet), Forms(fleet)
        self._begin_ns = day_start_us(fleet.start) * NS_PER_US
        self._out: list[Packet] = []
        self._made_ms: list[int] = []
        self._versions: list[int] = []
        self.counts: Counter[str] = Counter()
        """How many beats and questions were written."""
        end = (fleet.number_of(days[-1]) + 1) * HOURS_PER_DAY
        self._restarts = [restarts_of(fleet, n, end) for n in range(fleet.namesrvs)]
        self._servings = [
            Serving(fleet, n, self._ns([0, *restarts.to_us.tolist()]), self._out, round(traffic.loss * PPM))
            for n, restarts in enumerate(self._restarts)
        ]

    def _ns(self, us: Iterable[int]) -> list[int]:
        return [self._begin_ns + at * NS_PER_US for at in us]

    def day(self, day: dt.date) -> None:
        """Make a day's packets."""
        fleet, first = self._fleet, self._fleet.number_of(day)
        hours = range(first * HOURS_PER_DAY, (first + 1) * HOURS_PER_DAY)
        plans = [plan_of(fleet, n, day, hours) for n in range(fleet.namesrvs)]
        self._made_ms, self._versions = (of.tolist() for of in told_versions(fleet, plans[0].versions))
        for serving, plan in zip(self._servings, plans, strict=True):
            serving.silences = self._silences(plan.holes)
            if day in self._days:
                for hole in holes_from(fleet, plan.n, plan.holes).to_pylist():
                    self._written.tell({"truth": "holes", **hole})
        beats, asked = (
            fleet.beats_per_day,
            self._traffic.clients * self._traffic.asks / (self._traffic.poll_s * US_PER_S),
        )
        step = max(1, int(_AT_A_TIME / (fleet.namesrvs * fleet.brokers + asked * fleet.interval_us)))
        for start in range(first * beats, (first + 1) * beats, step):
            window = range(start, min(start + step, (first + 1) * beats))
            for serving, plan in zip(self._servings, plans, strict=True):
                self._serve(serving, plan, window, day)
            self.flush(self._begin_ns + window.stop * fleet.interval_us * NS_PER_US - _REACH_NS)

    def flush(self, until_ns: int) -> None:
        """Write the packets before an instant."""
        self._out.sort(key=attrgetter("time_ns"))
        end = bisect_left(self._out, until_ns, key=attrgetter("time_ns"))
        self._written.write(self._out[:end])
        del self._out[:end]

    def _silences(self, holes: Holes) -> dict[int, list[tuple[int, int]]]:
        found: dict[int, list[tuple[int, int]]] = {}
        parted = holes.where(holes.kind == KINDS.index(PARTITION))
        ends = zip(self._ns(parted.from_us.tolist()), self._ns(parted.to_us.tolist()), strict=True)
        for b, silence in zip(parted.b.tolist(), ends, strict=True):
            found.setdefault(b, []).append(silence)
        return found

    def _serve(self, serving: Serving, plan: Plan, window: range, day: dt.date) -> None:
        """Have a name server live through a window: numbers of beats."""
        begin_us, end_us = window.start * self._fleet.interval_us, window.stop * self._fleet.interval_us
        sent = beats_of(self._fleet, plan, window, is_late=False)
        luck = draw(self._fleet.seed, "luck of a beat", PPM, np.array([plan.n], np.int32), sent.b, sent.k)
        changed = sent.is_changed * self._fleet.brokers + sent.b
        beats: Columns = (sent.at_us * NS_PER_US, np.full(len(luck), _BEAT), sent.b, sent.registers, changed, luck)
        q = questions_of(self._fleet, self._traffic, plan.n, begin_us, end_us)
        asks: Columns = (q.at_ns, _ASK + q.flags, q.c, q.code, q.topic, q.luck)
        lives = self._lives(plan.n, begin_us, end_us)
        columns = [np.concatenate(parts) for parts in zip(lives, beats, asks, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        for at_ns, kind, who, one, two, chance in zip(*(column[order].tolist() for column in columns), strict=True):
            serving.pass_time(at_ns)
            if kind == _BEAT:
                told = (who, self._versions[two], self._made_ms[two])
                serving.beat(at_ns, who, self._beats.registration(*told) if one else self._beats.plain(*told), chance)
            elif kind >= _ASK:
                self._ask(serving, (at_ns, who, one, two, kind - _ASK, chance))
            elif kind == _START:
                serving.stops_ns = chance
                serving.start(at_ns, self._on_time(at_ns, sent))
            elif kind == _STOP:
                serving.stop(at_ns)
            else:
                serving.refuse(at_ns, f"{broker_endpoint(who, serving.n).split(':')[0]}:{_ATTEMPT_PORT + one}")
        serving.pass_time(self._begin_ns + end_us * NS_PER_US)
        if day in self._days:
            self.counts.update(beats=len(luck), questions=len(q.c))

    def _ask(self, serving: Serving, question: Question) -> None:
        """Have a client ask; a wrong answer says of the first broker that it takes no messages."""
        at_ns, c, code, topic, flags, luck = question
        if not serving.is_up:
            serving.refuse(at_ns, client_endpoint(c, _ATTEMPT_PORT))
            return
        asked = self._forms.asked(c, code, topic)
        connection = serving.connection_of(c, at_ns, anew=bool(flags & ANEW))
        said, fact = serving.question(at_ns, asked.request, asked.frame.serialization), None
        wrong = said._replace(body=said.body.replace(*_WRONG, 1)) if flags & WRONG else said
        if wrong != said:
            fact = {
                "truth": "wrong_answers",
                "namesrv_id": serving.id,
                "request_time": instants(np.array([at_ns // NS_PER_US]))[0].as_py(),
                "channel_id": connection.channel_id,
                "topic": asked.request.fields["topic"],
                "true_body": said.body.decode(),
                "body": wrong.body.decode(),
            }
        serving.ask(at_ns, connection, asked.frame, wrong, luck, fact)

    def _lives(self, n: int, begin_us: int, end_us: int) -> Columns:
        """Return when the processes of name server `n` stop and start, and attempts to connect in between, as actions."""
        restarts = self._restarts[n]
        stops, starts = restarts.from_us.tolist(), restarts.to_us.tolist()
        rows: list[tuple[int, ...]] = []
        for number, (stop_us, start_us) in enumerate(zip([-US_PER_S, *stops], [0, *starts], strict=True)):
            next_stop_ns = self._ns(stops[number : number + 1])
            if number and begin_us <= stop_us < end_us:
                rows.append((*self._ns([stop_us]), _STOP, 0, 0, 0, 0))
            if begin_us <= start_us < end_us:
                rows.append((*self._ns([start_us]), _START, 0, 0, 0, *(next_stop_ns or [_NEVER_NS])))
            for tries, at_us in enumerate(range(stop_us + _ATTEMPT_US // 2, start_us, _ATTEMPT_US)):
                if begin_us <= at_us < end_us or (number == 0 and begin_us == 0):
                    rows.append((*self._ns([at_us]), _REFUSE, tries % self._fleet.brokers, tries, 0, 0))
        return tuple(np.array(rows, np.int64).reshape(-1, 6).T)

    def _on_time(self, at_ns: int, sent: Sent) -> Iterable[int]:
        """Return the brokers that connect when a process starts at `at_ns`: all whose first beat is not before their turn."""
        since_us = sent.at_us - at_ns // NS_PER_US
        early = set(sent.b[(since_us >= 0) & (since_us <= sent.b)].tolist())
        return (b for b in range(self._fleet.brokers) if b not in early)
