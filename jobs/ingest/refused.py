"""Files that were refused, or of which nothing or not most could be read: what they are, and how they may be given again."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import UsageError
from jobs.store.ledger import ReadFile
from jobs.store.warehouse import Warehouse
from schemas import bronze


def told(warehouse: Warehouse) -> list[ReadFile]:
    """Return such files, by name."""
    found = (source for source in warehouse.recorded() if source.verdict != bronze.ACCEPTED)
    return sorted(found, key=lambda source: (source.name, source.sha256))


def forget(warehouse: Warehouse, wanted: Sequence[str]) -> list[ReadFile]:
    """Have nobody know such files, named or by the first digits of their digests, and commit it; return them.

    Given again they are read again. Raises UsageError for one that is not there.
    """
    gone: dict[str, ReadFile] = {}
    for name in wanted:
        found = [source for source in told(warehouse) if name == source.name or source.sha256.startswith(name.lower())]
        if not name or not found:
            raise UsageError(f"{name!r}: no file of this name, or with such a digest, was refused or unread")
        gone |= {source.sha256: source for source in found}
    kept = warehouse.rows(bronze.SOURCES).filter(~pc.field("content_sha256").isin(pa.array(sorted(gone))))
    warehouse.write(bronze.SOURCES, kept, instead=warehouse.files(bronze.SOURCES))
    warehouse.commit([bronze.SOURCES])
    return list(gone.values())
