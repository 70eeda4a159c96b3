"""The Python library for published tables: `h = namesrv_history.open("warehouse")`, then `h.route_at(topic, time)`.

Other modules are imported when a question needs them: all packages of the installed program lie below this one.
"""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING, Literal

from jobs.errors import JobError, NotRecordedError

if TYPE_CHECKING:
    from jobs.cli.library import History

__all__ = ["JobError", "NotRecordedError", "open"]


def open(  # noqa: A001  said with the package's name before it
    warehouse: str | os.PathLike[str] = "warehouse",
    as_known_at: str | dt.datetime | None = None,
    *,
    frames: Literal["arrow", "pandas", "polars"] = "arrow",
) -> History:
    """Open a warehouse, a folder or an s3:// URL, as of the last run, or of an earlier one (its id, or an instant, UTC).

    `frames`: the type of answers: Arrow tables, or data frames of pandas or polars (polars must be installed separately).
    Raises JobError if nothing is published in the warehouse, or it was changed after publication; NotRecordedError, a JobError,
    for an instant of which nothing is recorded.
    """
    from jobs.cli.library import History  # noqa: PLC0415  see above

    return History(os.fspath(warehouse), as_known_at, frames)
