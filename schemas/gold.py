"""The gold tables: what the replay makes of the events, and the ledger of what was published.

Each has the name of its table in capitals: `gold.EXPIRED_BROKERS` is defined in `schemas/tables/expired_brokers.py`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from schemas import tables
from schemas.gold_histories import HISTORY_TABLES, INTERVAL
from schemas.table import Step, Table

__all__ = ("HISTORY_TABLES", "INTERVAL", "INTERVAL_TABLES", "REPORT_TABLES", "TABLES", "made_by")

_MODULES = (import_module(f"{tables.__name__}.{module.name}") for module in iter_modules(tables.__path__))
_FOUND: tuple[Table, ...] = tuple(of for module in _MODULES for of in vars(module).values() if isinstance(of, Table))
_DEFINED = tuple(table for table in _FOUND if table.layer != "bronze")
REPORT_TABLES = tuple(table for table in _DEFINED if table.made_by is not None)
"""The tables of a day that are no histories: what became of events, and what an operator should know about it."""
TABLES = (*HISTORY_TABLES, *REPORT_TABLES, *(table for table in _DEFINED if table.made_by is None))
INTERVAL_TABLES = tuple(table for table in TABLES if table.has_intervals)
"""The histories, and what lasts and is told."""
_BY_NAME = {table.name.upper(): table for table in TABLES}


def made_by(step: Step) -> tuple[Table, ...]:
    """Return the tables of which a step of a day's replay writes the rows."""
    return tuple(table for table in REPORT_TABLES if table.made_by == step)


def __getattr__(name: str) -> Table:
    """Return the table of that name, in capitals."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise AttributeError(f"no gold table is called {name.lower()}") from None
