"""Instants as users write them."""

from __future__ import annotations

import datetime as dt
import re

from jobs.errors import NotRecordedError, UsageError
from jobs.store.coverage import NOT_RECORDED

_ZONED = re.compile(r"(.*\d)\s+([A-Za-z]\w*(?:/[\w+/-]+)?)\s*")


def instant(text: str) -> dt.datetime:
    """Return the instant of a text in ISO 8601, followed by an offset or the name of a time zone, else in UTC.

    Raises UsageError, also for an hour that a zone's clocks skip or repeat; NotRecordedError if the year in UTC is not 1 to 9999.
    """
    zone: dt.tzinfo = dt.timezone.utc
    try:
        named = _ZONED.fullmatch(text)
        at = dt.datetime.fromisoformat((named[1] if named else text).replace("Z", "+00:00"))
        if named:
            from zoneinfo import ZoneInfo  # noqa: PLC0415  most instants name none

            zone = ZoneInfo(named[2])
    except (ValueError, KeyError, OSError) as error:
        raise UsageError(
            f"instant {text!r}: expected ISO 8601, such as 2026-11-21T09:00:00Z, 2026-11-21 17:00+08:00 or "
            "2026-11-21 17:00 Asia/Shanghai"
        ) from error
    if at.tzinfo is not None and named:
        raise UsageError(f"instant {text!r}: has an offset and a zone; one of them, please")
    if at.tzinfo is None:
        plain = at.isoformat()
        at, other = (at.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
        if named and at.utcoffset() != other.utcoffset():
            raise UsageError(f"instant {text!r}: clocks were changed then; give an offset, such as {plain}+00:00")
    try:
        return at.astimezone(dt.timezone.utc)
    except OverflowError as error:
        raise NotRecordedError(f"{NOT_RECORDED}{text}: years are 1 to 9999") from error


def known_at(text: str) -> str | dt.datetime:
    """Return an instant if the text begins with a date with hyphens, else the id of a run. Raises UsageError for the future."""
    if re.match(r"\d{4}-\d{2}-\d{2}", text) is None:
        return text
    at = instant(text)
    if at > dt.datetime.now(dt.timezone.utc):
        raise UsageError(f"as known at {text}: that is to come; what will be known then is not known")
    return at
