"""Coverage: which times of each name server are recorded, and what is known of them. It joins the days of the ledger.

The recorded time runs from the first event or answer to the last one; a time without any in between counts as quiet. A gap that
the recorder noted, or a whole day without a row, counts as not recorded. No Arrow import here, as in `store.published`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

from jobs.errors import NotRecordedError, UsageError

RECORDED: Final = """
    WITH published AS (
        SELECT row_number() OVER (ORDER BY finished_time, run_id) AS number, days, coverage FROM runs WHERE status = 'published'
    ),
    last AS (SELECT day, max(number) AS number FROM (SELECT unnest(days) AS day, number FROM published) GROUP BY day)
    SELECT found.* FROM (SELECT number, unnest(coverage) AS found FROM published) AS c
    JOIN last ON last.number = c.number AND last.day = c.found.day ORDER BY found.namesrv_id, found.day"""
"""Coverage of each name server's days, in DuckDB: each day as the last run that recomputed it has it."""
NOT_RECORDED: Final = "nothing is recorded at "
"""Start of the message for an instant at which no name server is recorded."""
_ONE_US, _ONE_DAY = dt.timedelta(microseconds=1), dt.timedelta(days=1)
_BEGINNINGS = ("started", "observed_from")
_SAYS_ALL = ("started", "stopped")
_LOG_STARTED = "log_started"
"""A start that only the name server's own log shows: the log tells only a part of what follows."""
_NAMED = 10


class Span(NamedTuple):
    """A time of one name server, up to `until` (exclusive), in which its state of knowledge is the same.

    `recorded`: not in a gap; `running`: None in a gap; `known`: all its routes are known; `known_since`: whatever appeared
    since then is known in any case; `doubtful`: all its brokers fell silent at once.
    """

    begin: dt.datetime
    until: dt.datetime
    recorded: bool
    running: bool | None
    known: bool
    known_since: dt.datetime
    doubtful: bool = False


class Covered(NamedTuple):
    """One name server and its consecutive spans."""

    namesrv_id: str
    spans: list[Span]

    @property
    def first(self) -> dt.datetime:
        """Return the first recorded instant."""
        return self.spans[0].begin

    @property
    def last(self) -> dt.datetime:
        """Return the last recorded instant."""
        return self.spans[-1].until - _ONE_US

    def at(self, at: dt.datetime) -> Span | None:
        """Return the span of an instant; None if it is not recorded."""
        return next((span for span in self.spans if span.begin <= at < span.until), None)


def covered_of(days: Iterable[Mapping[str, Any]]) -> list[Covered]:
    """Return the coverage of each name server from rows of `RECORDED`."""
    return [Covered(name, _spans(list(own))) for name, own in groupby(days, key=lambda row: row["namesrv_id"])]


def span_rows(covered: Sequence[Covered]) -> list[dict[str, Any]]:
    """Return the rows of `coverage_spans` (`schemas.views.COVERAGE_SPANS`): what holds at each instant."""
    words = summary(covered)
    rows = [_row(span.begin, span.until, words, of, span, nowhere=False) for of in covered for span in of.spans]
    # None is an unlimited end: any instant in its place could be asked for.
    edges = [None, *sorted({at for of in covered for at in (of.first, of.last + _ONE_US)}), None]
    for begin, until in pairwise(edges):
        outside = [of for of in covered if begin is None or not of.first <= begin <= of.last]
        is_nowhere = len(outside) == len(covered)
        rows += [_row(begin, until, words, of, None, nowhere=is_nowhere) for of in outside]
        if not covered:
            row = _row(begin, until, words, Covered("", []), None, nowhere=True)
            rows.append({**row, "said": [dict.fromkeys(row["said"][0])]})
    return rows


def summary(covered: Sequence[Covered]) -> str:
    """Return the recorded times of all name servers in words."""
    named = ", ".join(f"{of.namesrv_id} from {_range(of)}" for of in covered[:_NAMED])
    more = f", and {len(covered) - _NAMED} more name servers" if len(covered) > _NAMED else ""
    return f"recorded: {named or 'nothing'}{more}"


def require_covered(covered: Sequence[Covered], namesrv_id: str, at: dt.datetime) -> Span:
    """Return the span of a name server at an instant (with a time zone).

    Raises UsageError for an unknown name server, NotRecordedError if the instant is not recorded.
    """
    own = next((of for of in covered if of.namesrv_id == namesrv_id), None)
    if own is None:
        names = ", ".join(of.namesrv_id for of in covered)
        raise UsageError(f"{namesrv_id}: no such name server; there are {names}")
    span = own.at(at)
    if span is None:
        raise NotRecordedError(f"{NOT_RECORDED}{text_of(at)} of {namesrv_id}; recorded: {_range(own)}")
    return span


def require_within(covered: Sequence[Covered], since: dt.datetime | None, until: dt.datetime | None) -> bool:
    """Return whether some name server's recording covers the whole time. Raises NotRecordedError if none covers any of it."""
    first, last = min((of.first for of in covered), default=None), max((of.last for of in covered), default=None)
    if first is None or last is None or (since or first) > last or (until is not None and until <= first):
        what = " ".join(f"{word} {text_of(at)}" for word, at in (("since", since), ("until", until)) if at is not None)
        raise NotRecordedError(f"nothing is recorded {what}; {summary(covered)}")
    return (since or first) >= first and (until or last) <= last + _ONE_US


def text_of(at: dt.datetime) -> str:
    """Return an instant as ISO 8601 with Z."""
    return f"{at.astimezone(dt.timezone.utc).replace(tzinfo=None).isoformat()}Z"


def _spans(days: Sequence[Mapping[str, Any]]) -> list[Span]:
    """Return the spans of one name server from its days, which are in order."""
    marks = sorted((mark for day in days for mark in day["marks"]), key=lambda mark: mark["at"])
    gaps = [(mark["at"], mark["until"]) for mark in marks if mark["kind"] == "gap"]
    gaps += [(one["last_time"], two["first_time"]) for one, two in pairwise(days) if two["day"] - one["day"] > _ONE_DAY]
    beginnings = [mark["kind"] for mark in marks if mark["kind"] in _BEGINNINGS]
    lives = [mark for mark in marks if mark["kind"] in (*_SAYS_ALL, _LOG_STARTED)]
    first = min([days[0]["first_time"], *(mark["at"] for mark in lives)])
    end = max([days[-1]["last_time"], *(until for _, until in gaps)]) + _ONE_US
    # A doubt that ended on a later day has a second mark, with its end.
    doubts = {mark["at"]: mark["until"] or end for mark in marks if mark["kind"] == "doubt"}.items()
    edges = {first, end, *(at for pair in (*gaps, *doubts) for at in pair), *(mark["at"] for mark in lives)}
    known, running, since = beginnings[:1] in ([], ["started"]), True, first
    spans = []
    for begin, until in pairwise(sorted(at for at in edges if first <= at <= end)):
        for _, over in (gap for gap in gaps if gap[0] == begin):
            known, since = False, over
        for mark in (mark for mark in lives if mark["at"] == begin):
            known, running, since = mark["kind"] != _LOG_STARTED, mark["kind"] != "stopped", begin
        in_gap, in_doubt = (any(at <= begin < over for at, over in pairs) for pairs in (gaps, doubts))
        spans.append(Span(begin, until, not in_gap, None if in_gap else running, known and not in_gap, since, in_doubt))
    return spans


def _row(
    begin: dt.datetime | None, until: dt.datetime | None, words: str, of: Covered, span: Span | None, *, nowhere: bool
) -> dict[str, Any]:
    """Return a row of `coverage_spans` for one name server: in one of its spans, or (None) where nothing is recorded of it."""
    outside = f"not recorded; recorded: {_range(of)}" if of.spans else ""
    row = {
        "namesrv_id": of.namesrv_id,
        "is_covered": span is not None,
        "recorded": span is not None and span.recorded,
        "running": None if span is None else span.running,
        "known": span is not None and span.known and not span.doubtful,
        "known_since": None if span is None else span.known_since,
        "coverage": outside if span is None else _in_words(of.spans, span),
        "nothing": None,
    }
    return {"from_time": begin, "until": until, "nowhere": nowhere, "recorded": words, "said": [row]}


def _in_words(spans: Sequence[Span], span: Span) -> str:
    if not span.recorded:
        return f"not recorded: a gap from {text_of(span.begin)} to {text_of(span.until)}"
    if span.doubtful:
        return f"in doubt from {text_of(span.begin)} on: all brokers fell silent at once, an outage or a gap in the log"
    if span.known:
        return "known in full" if span.running else "known in full: it was not running"
    later = next((other.begin for other in spans if other.known and other.begin >= span.until), None)
    when = "nowhere later" if later is None else f"from {text_of(later)} on"
    return f"known in part: what appeared since {text_of(span.known_since)}; in full {when}"


def _range(of: Covered) -> str:
    gaps = sum(not span.recorded for span in of.spans)
    return f"{text_of(of.first)} to {text_of(of.last)}{f' with {gaps} gap(s)' if gaps else ''}"
