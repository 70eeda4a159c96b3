"""Which rows come too late, and clocks that go back.

A row whose day lies further behind the latest day of its name server than the limit would change history that has long been
read: it is refused. So is a row that lies as far behind what came before it in its own file: a file whose clock jumps so
far has no order. Smaller steps back are noted, not refused. Nothing that is recorded lies after the clock of who reads it: a row
that does, by more than clocks differ, is refused, and moves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from namesrv_wire.errors import DecodeError, Reason
from namesrv_wire.json_text import canonical_json
from namesrv_wire.rows import AnyRow, FrameRow, Place, Row, digest_id, fact_row, quarantine_row

STEP_BACK_NS: Final = 5_000_000_000
STEP_BACK_US: Final = STEP_BACK_NS // 1_000
"""Steps back by more than this are noted."""
MAX_NOTED: Final = 100
"""Steps back that are noted of one file."""
_DAY_US: Final = 86_400_000_000
_NS_PER_US: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Times(NamedTuple):
    """The times of rows of one name server that follow each other, in microseconds; `step`: the least from one to the next."""

    first: int
    last: int
    low: int
    high: int
    step: int


def times_of(us: NDArray[np.int64]) -> Times:
    """Return the times of rows in their order."""
    step = int(np.diff(us).min()) if len(us) > 1 else 0
    return Times(int(us[0]), int(us[-1]), int(us.min()), int(us.max()), step)


class Lateness:
    """Judges rows by the time of their effect, in microseconds since the epoch.

    `watermarks_us`: the latest time of each name server before this run. `limit_days`: a row may lie so many days further
    back. `until_us`: no row may lie later; None: whoever reads has no clock. `latest_us`: the latest time of each name server
    among the rows that were let through.
    """

    def __init__(self, watermarks_us: Mapping[str, int], limit_days: int, until_us: int | None = None) -> None:
        self.watermarks_us, self.limit_days, self.until_us = watermarks_us, limit_days, until_us
        self._earliest_day = {name: us // _DAY_US - limit_days for name, us in watermarks_us.items()}
        self._latest_of_file: dict[str, int] = {}
        self._last_of_file: dict[str, int] = {}
        self.steps_back: list[FrameRow] = []
        """The facts `clock_went_back` of the file, the first `MAX_NOTED` of them."""
        self.latest_us: dict[str, int] = {}
        self.refused: Counter[Reason] = Counter()
        """Rows that were refused, by reason; of a file of which nothing was let through, too."""

    def begin_file(self) -> None:
        """Begin a file: its times are compared with each other from here on."""
        self._latest_of_file.clear()
        self._last_of_file.clear()
        self.steps_back = []

    def add(self, latest_us: Mapping[str, int], refused: Counter[Reason]) -> None:
        """Take in what another one has let through, and refused."""
        for name, us in latest_us.items():
            self.latest_us[name] = max(self.latest_us.get(name, us), us)
        self.refused.update(refused)

    def lets_through(self, namesrv_id: str, first_us: int, last_us: int) -> bool:
        """Return whether rows of a capture may all pass that took effect between two times; they then count as passed."""
        earliest_day = self._earliest_day.get(namesrv_id)
        if (earliest_day is not None and first_us // _DAY_US < earliest_day) or self.is_ahead(last_us):
            return False
        self.latest_us[namesrv_id] = max(self.latest_us.get(namesrv_id, last_us), last_us)
        return True

    def is_ahead(self, at_us: int) -> bool:
        """Return whether a time lies after all that can be recorded by now."""
        return self.until_us is not None and at_us > self.until_us

    def all_in_order(self, found: Mapping[str, Times]) -> bool:
        """Return whether rows that follow each other in a file all pass without a remark; they then count as passed.

        `found`: when they took effect, by name server.
        """
        for name, times in found.items():
            last_us = self._last_of_file.get(name, times.first)
            latest_us = max(self._latest_of_file.get(name, times.high), times.high)
            earliest = max(self._earliest_day.get(name, 0), latest_us // _DAY_US - self.limit_days)
            step = min(times.step, times.first - last_us)
            if self.is_ahead(times.high) or times.low // _DAY_US < earliest:
                return False
            if len(self.steps_back) < MAX_NOTED and step < -STEP_BACK_US:
                return False
        for name, times in found.items():
            self._latest_of_file[name] = max(self._latest_of_file.get(name, times.high), times.high)
            self._last_of_file[name] = times.last
            latest = self._latest_of_file[name]
            self.latest_us[name] = max(self.latest_us.get(name, latest), latest)
        return True

    def checked(self, row: AnyRow, *, in_order: bool = True) -> AnyRow:
        """Return the row, or the quarantine row in its place.

        `in_order`: the row's place in its file says something about its time; rows of a capture leave when they are
        complete.
        """
        if not isinstance(row, FrameRow):
            return row
        namesrv_id, at_us = row.namesrv_id, row.effect_us
        if self.until_us is not None and self.is_ahead(at_us):
            return self._refusal(row, Reason.AHEAD_OF_CLOCK, misdated(Reason.AHEAD_OF_CLOCK, at_us, self.until_us))
        earliest_day = self._earliest_day.get(namesrv_id)
        if earliest_day is not None and at_us // _DAY_US < earliest_day:
            detail = f"{_shown(at_us)}: more than {self.limit_days} days behind what is known of {namesrv_id} (late.limit_days)"
            return self._refusal(row, Reason.TOO_LATE, detail)
        if in_order:
            latest = self._latest_of_file.setdefault(namesrv_id, at_us)
            if at_us // _DAY_US < latest // _DAY_US - self.limit_days:
                detail = (
                    f"{_shown(at_us)} after {_shown(latest)}: the clock of {namesrv_id} goes back "
                    f"by more than {self.limit_days} days (late.limit_days)"
                )
                return self._refusal(row, Reason.CLOCK_WENT_BACK, detail)
            last = self._last_of_file.setdefault(namesrv_id, at_us)
            if at_us < last - STEP_BACK_US:
                self._note(row, last)
            self._last_of_file[namesrv_id] = at_us
            self._latest_of_file[namesrv_id] = max(latest, at_us)
        self.latest_us[namesrv_id] = max(self.latest_us.get(namesrv_id, at_us), at_us)
        return row

    def _refusal(self, row: FrameRow, reason: Reason, detail: str) -> Row:
        self.refused[reason] += 1
        values = row.values
        content = {name: value for name, value in values.items() if name not in ("source_file", "source_offset")}
        piece = canonical_json(content).encode("utf-8", "surrogatepass")
        place = Place(values["source_file"], values["source_offset"], values["event_time"] * _NS_PER_US)
        whose = values["namesrv_id"], values["channel_id"]
        return quarantine_row(whose, place, DecodeError(reason, detail), piece, len(piece), values["event_id"])

    def _note(self, row: FrameRow, before_us: int) -> None:
        if len(self.steps_back) >= MAX_NOTED:
            return
        kind, at_us = "clock_went_back", row.effect_us
        place = Place(row.source_file, row.source_offset, at_us * _NS_PER_US)
        identity = digest_id(row.namesrv_id, kind, before_us, at_us, row.event_id)
        fact = fact_row(row.namesrv_id, place.time_ns, place, kind, stepped(before_us, at_us))
        self.steps_back.append(fact._replace(own_id=identity, seq_is_given=False))


def misdated(reason: Reason, at_us: int, until_us: int) -> str:
    """Return in words that a time lies before or after all that can be recorded by now, or far from those beside it."""
    what = {
        Reason.AHEAD_OF_CLOCK: f"nothing that is recorded by now is later than {_shown(until_us)} (late.ahead_limit_minutes)",
        Reason.TOO_LATE: "no name server was recorded before 2000",
        Reason.CLOCK_WENT_BACK: "more than a minute from the packets before and after it",
    }
    return f"{_shown(at_us)}: {what[reason]}"


def stepped(before_us: int, at_us: int) -> str:
    """Return in words from where to where a clock went back."""
    return f"{_shown(at_us)} after {_shown(before_us)}: back by {(before_us - at_us) / 1e6:.3f} s"


def _shown(us: int) -> str:
    if not -62_135_596_800_000_000 <= us <= 253_402_300_799_999_999:  # years 1 to 9999
        return f"{us} us since 1970"
    return (_EPOCH + timedelta(microseconds=us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
