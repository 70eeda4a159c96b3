"""The plan of a day of a simulated fleet: silences of brokers, and the heartbeats that result.

A beat is known from its number alone: when it comes, whether it is lost, and what it says are hashes of the seed, the name
server, the broker and that number. So rows are the same however the work is cut, and no state is kept between them.
Times with the name `_us` are microseconds since the fleet's first day began; all is in arrays of NumPy.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.times import day_start_us
from tools.fleet.draws import PPM, Bools, Longs, draw, happens
from tools.fleet.fleet import (
    HOLES_BEGIN_US,
    HOLES_END_US,
    HOURS_PER_DAY,
    PARTITION_GROUPS,
    RESTART_S,
    US_PER_HOUR,
    US_PER_S,
    Fleet,
)

OUTAGE, PARTITION, RESTART = "outage", "partition", "restart"
KINDS: Final = (OUTAGE, PARTITION, RESTART)
"""Kinds of holes; where several would be in one hour, the last of these is."""
NEVER: Final = 1 << 62
"""Number of a beat that is not reached."""
Ints = NDArray[np.int32]


class Holes(NamedTuple):
    """Silences of brokers at one name server: an hour (since the fleet's start) and a broker have at most one.

    `kind`: index into KINDS. Beats from number `k_from` up to, not with, `k_to` are lost: those from `from_us` to `to_us`.
    """

    kind: Ints
    h: Ints
    b: Ints
    from_us: Longs
    to_us: Longs
    k_from: Longs
    k_to: Longs

    def where(self, mask: Bools) -> Holes:
        """Return some of them."""
        return Holes._make(values[mask] for values in self)


class Versions(NamedTuple):
    """The configurations of all brokers on a day, by broker; a number says how often one was changed until then.

    `k_change`: number of the beat with which it goes from `before` to `after`, or NEVER; `made_us`: when `before` was made.
    """

    before: Longs
    after: Longs
    k_change: Longs
    made_us: Longs


class Beats(NamedTuple):
    """Beats at one name server that are sent, one an entry, in order of time.

    `b`: broker; `k`: number; `at_us`: when, since the epoch; `registers`: it is a registration; `is_changed`: it tells the
    version after the day's change; `life`: to which process it goes, an index into `started_us` of the plan.
    """

    b: Ints
    k: Longs
    at_us: Longs
    registers: Bools
    is_changed: Bools
    life: Ints

    def where(self, mask: Bools) -> Beats:
        """Return some of them."""
        return Beats._make(values[mask] for values in self)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is planned at name server `n` for some hours of a day, of which `first` is the first.

    `k_from`, `k_to`: by hour and broker, as in `holes`; 0 where there is none. `life`: by hour, which process runs when it
    begins; `restarts`: by hour; `started_us`: by process.
    """

    n: int
    first: int
    holes: Holes
    k_from: Longs
    k_to: Longs
    life: Ints
    restarts: Bools
    started_us: Longs
    versions: Versions


def plan_of(fleet: Fleet, n: int, day: dt.date, hours: range) -> Plan:
    """Return what is planned at name server `n` for `hours` (since the fleet's start) of `day`."""
    holes = _holes(fleet, n, np.arange(hours.start, hours.stop, dtype=np.int32))
    k_from, k_to = np.zeros((2, len(hours), fleet.brokers), np.int64)
    k_from[holes.h - hours.start, holes.b] = holes.k_from
    k_to[holes.h - hours.start, holes.b] = holes.k_to
    restarted = restarts_of(fleet, n, hours.stop)
    life = np.searchsorted(restarted.h, hours).astype(np.int32)
    started_us = np.concatenate([[0], restarted.to_us])[life[0] :]
    restarts = np.isin(hours, restarted.h)
    return Plan(n, hours.start, holes, k_from, k_to, life - life[0], restarts, started_us, versions_on(fleet, day))


class Restarts(NamedTuple):
    """The restarts of one name server: in which hours, when its process stopped, and when the next one started."""

    h: Ints
    from_us: Longs
    to_us: Longs


def restarts_of(fleet: Fleet, n: int, end: int) -> Restarts:
    """Return the restarts of name server `n` before hour `end`."""
    hours = np.arange(end, dtype=np.int32)
    found = hours[_restarts(fleet, n, hours)]
    return Restarts(found, *_ends(fleet, RESTART, _numbers(-1 - n), found))


def versions_on(fleet: Fleet, day: dt.date) -> Versions:
    """Return the configurations on `day`.

    The changes of a broker are spread evenly over the days: after d days there are as many as whole numbers up to its
    own fraction plus d times the share.
    """
    number, share = fleet.number_of(day), round(fleet.churn * PPM)
    b = np.arange(fleet.brokers, dtype=np.int32)
    fraction = draw(fleet.seed, "fraction", PPM, b)
    before, after = ((fraction + share * days) // PPM for days in (number, number + 1))
    k_change = np.where(after > before, _change_beats(fleet, b, np.array([number])), NEVER)
    made_on = np.maximum(before * PPM - fraction - 1, 0) // max(share, 1)
    made_us = np.where(before == 0, 0, _change_beats(fleet, b, made_on) * fleet.interval_us)
    return Versions(before, after, k_change, made_us)


def beats_of(fleet: Fleet, plan: Plan, numbers: range, *, is_late: bool) -> Beats:
    """Return the beats with these numbers (in the hours of the plan) that come on time, or those that come late or again."""
    k = np.arange(numbers.start, numbers.stop)[:, None]
    b = np.arange(fleet.brokers, dtype=np.int32)[None, :]
    hour = k[:, 0] // fleet.beats_per_hour - plan.first
    k_from, k_to = plan.k_from[hour], plan.k_to[hour]
    of = (_numbers(plan.n), b, k)
    came_late = happens(fleet.seed, "late", round(fleet.late * PPM), *of) if fleet.late else np.array([False])
    if is_late and fleet.duplicates:
        came_late = came_late | happens(fleet.seed, "duplicate", round(fleet.duplicates * PPM), *of)
    sent = ((k < k_from) | (k >= k_to)) & (came_late if is_late else ~came_late)
    k_change = plan.versions.k_change[None, :]
    # Brokers register at first, when they come back, with every change, and as the options say.
    registers = (k == 0) | (k == k_change) | (k == k_to)
    if fleet.beats_per_registration:
        registers |= k % fleet.beats_per_registration == 0
    if fleet.registrations:
        registers |= happens(fleet.seed, "registration", round(fleet.registrations * PPM), *of)
    life = plan.life[hour][:, None] + (plan.restarts[hour][:, None] & (k >= k_to))
    row, column = np.nonzero(sent)
    at_us = beat_us(fleet, plan.n, b, k)[row, column] + day_start_us(fleet.start)
    order = np.argsort(at_us)
    row, column = row[order], column[order]
    changed = k >= k_change
    return Beats(
        column.astype(np.int32),
        k[row, 0],
        at_us[order],
        registers[row, column],
        changed[row, column],
        life[row, column].astype(np.int32),
    )


def beat_us(fleet: Fleet, n: int, b: Ints, k: Longs) -> Longs:
    """Return when beats `k` of brokers `b` are sent. No two beats to a name server are sent in the same microsecond.

    Brokers take turns in the interval; the jitter moves a beat in whole steps of as many microseconds as there are
    brokers, and each broker has its own microsecond of a step.
    """
    turn = fleet.interval_us - fleet.jitter_us - fleet.brokers
    moved = draw(fleet.seed, "jitter", fleet.jitter_us, _numbers(n), b, k)
    moved += b.astype(np.int64) * turn // fleet.brokers
    moved -= moved % fleet.brokers
    moved += k * fleet.interval_us + b
    return moved


def _holes(fleet: Fleet, n: int, hours: Ints) -> Holes:
    """Return the holes of these hours; of several in one hour the name server's own counts."""
    b = np.arange(fleet.brokers, dtype=np.int32)
    groups = min(PARTITION_GROUPS, fleet.brokers)
    parted = happens(fleet.seed, PARTITION, _in_an_hour(fleet.partitions), _numbers(n), hours)
    group = draw(fleet.seed, "group", groups, _numbers(n), hours)
    occurs = {
        OUTAGE: happens(fleet.seed, OUTAGE, round(fleet.outages * PPM), b[None, :], hours[:, None]),
        PARTITION: parted[:, None] & (b[None, :] % groups == group[:, None]),
        RESTART: _restarts(fleet, n, hours)[:, None],
    }
    kinds = np.full((len(hours), fleet.brokers), -1, np.int32)
    for number, name in enumerate(KINDS):
        kinds[np.broadcast_to(occurs[name], kinds.shape)] = number
    row, column = np.nonzero(kinds >= 0)
    kind, h, who = kinds[row, column], hours[row], b[column]
    from_us, to_us = np.zeros((2, len(row)), np.int64)
    for number, name in enumerate(KINDS):
        is_kind = kind == number
        key = who[is_kind] if name == OUTAGE else _numbers(-1 - n)
        seconds = RESTART_S if name == RESTART else fleet.outage_s
        from_us[is_kind], to_us[is_kind] = _ends(fleet, name, key, h[is_kind], seconds)
    firsts = (_first_beats(fleet, n, who, at_us) for at_us in (from_us, to_us))
    return Holes(kind, h, who, from_us, to_us, *firsts)


def _restarts(fleet: Fleet, n: int, hours: Ints) -> Bools:
    return happens(fleet.seed, RESTART, _in_an_hour(fleet.restarts), _numbers(n), hours)


def _in_an_hour(times_a_day: float) -> int:
    return round(times_a_day * PPM / HOURS_PER_DAY)


def _ends(fleet: Fleet, kind: str, key: Ints, h: Ints, seconds: tuple[int, int] = RESTART_S) -> tuple[Longs, Longs]:
    """Return the ends of holes of `kind` in hours `h`, in their middle part; `key`: who has the same hole."""
    shortest, longest = seconds
    length = (draw(fleet.seed, f"{kind} length", longest - shortest + 1, key, h) + shortest) * US_PER_S
    into = draw(fleet.seed, f"{kind} begin", HOLES_END_US - HOLES_BEGIN_US - length, key, h)
    from_us = h.astype(np.int64) * US_PER_HOUR + HOLES_BEGIN_US + into
    return from_us, from_us + length


def _first_beats(fleet: Fleet, n: int, b: Ints, at_us: Longs) -> Longs:
    """Return the numbers of the first beats at or after instants. Each beat lies within its own interval."""
    k = at_us // fleet.interval_us
    return k + (beat_us(fleet, n, b, k) < at_us)


def _change_beats(fleet: Fleet, b: Ints, number: Longs) -> Longs:
    """Return the numbers of the beats with which configurations change on the day with that number."""
    return number * fleet.beats_per_day + draw(fleet.seed, "change", fleet.beats_per_day, b, number)


def _numbers(value: int) -> Ints:
    return np.array([value], np.int32)
