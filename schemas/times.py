"""UTC days and instants as numbers: microseconds since the epoch, and positions (nanoseconds since the epoch)."""

from __future__ import annotations

import datetime as dt

from namesrv_core.machine.events import NS_PER_US

_EPOCH = dt.date(1970, 1, 1)
US_PER_DAY = 86_400_000_000


def day_of(at_us: int) -> dt.date:
    """Return the UTC date of an instant in microseconds since the epoch."""
    return _EPOCH + dt.timedelta(days=at_us // US_PER_DAY)


def day_start(day: dt.date) -> dt.datetime:
    """Return the first instant of a UTC day."""
    return dt.datetime.combine(day, dt.time(), dt.timezone.utc)


def day_start_us(day: dt.date) -> int:
    """Return the first instant of a UTC day in microseconds since the epoch."""
    return (day - _EPOCH).days * US_PER_DAY


def day_start_seq(day: dt.date) -> int:
    """Return the first position of a UTC day."""
    return day_start_us(day) * NS_PER_US


def instant_us(value: dt.datetime) -> int:
    """Return a UTC datetime, with or without its zone, as microseconds since the epoch."""
    aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.timezone.utc)
    return (aware - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(microseconds=1)
