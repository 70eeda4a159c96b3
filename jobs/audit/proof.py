"""The proof that a row was published, for whoever has kept a checkpoint: some 2 kB, checked with SHA-256 alone."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import TamperedError, UsageError
from jobs.store.files import DataFile, batches_of, is_rooted, joins_of
from jobs.store.merkle import leaf_of, leaves_of, nodes_beside, root_of, text_of, texts_of
from jobs.store.published import Noted
from jobs.store.warehouse import Warehouse
from schemas.rules import TABLES

_MOST = 100


def proofs(warehouse: Warehouse, checkpoint: Noted, name: str, values: Mapping[str, str]) -> Iterator[str]:
    """Yield the proof of each row of a table that has these values, as of the run of a checkpoint: a line of JSON.

    At most 100. Raises UsageError if there is no such row, table or column, TamperedError for a file that is not as published.
    """
    table, chain = TABLES.get(name), warehouse.chain()
    if table is None or not is_rooted(table):
        raise UsageError(f"{name}: no table of whose rows the chain has roots")
    if unknown := values.keys() - set(table.stored_schema.names):
        raise UsageError(f"{name}: has no stored column {', '.join(sorted(unknown))}")
    previous, run = chain.parts(checkpoint.run_id)
    files, found = chain.files(checkpoint.run_id), 0
    keys = sorted(files)
    entries = [leaf_of(text_of(files[key].row())) for key in keys]
    for number, key in enumerate(keys):
        if key[0] != name:
            continue
        entry = files[key]
        file = DataFile(entry.path, 0, 0, None)
        rows = pa.concat_tables(batches_of(warehouse.path, table, [file])).select(table.stored_schema.names)
        if not (matched := _matched(rows, values)):
            continue
        leaves, ends = leaves_of(rows), [0, *accumulate(joins_of(warehouse.path, table, file))]
        for place in matched:
            begin = max(end for end in ends if end <= place)
            piece = leaves[begin : ends[ends.index(begin) + 1]]
            if root_of(piece) not in {root for _, root in entry.pieces}:
                raise TamperedError(f"{name}: {entry.path} has not the rows that were published")
            if (found := found + 1) > _MOST:
                raise UsageError(f"{name}: more than {_MOST} rows are {dict(values)}: name more columns")
            (text,) = texts_of(rows.slice(place, 1))
            ways = (_way(piece, place - begin), _way(entries, number))
            yield text_of([text, *ways[0], text_of(entry.row()), *ways[1], previous, run])
    if not found:
        raise UsageError(f"{name}: run {checkpoint.run_id} has no row with {dict(values)}")


def _way(leaves: Sequence[bytes], index: int) -> tuple[int, int, str]:
    """Return the place of a leaf, how many there are, and the nodes beside its way to the root, one after the other."""
    return index, len(leaves), base64.b64encode(nodes_beside(leaves, index)).decode()


def _matched(rows: pa.Table, values: Mapping[str, str]) -> list[int]:
    """Return which rows have these values, written as texts. Raises UsageError for one that cannot be of its column."""
    try:
        same = [pc.equal(rows[column], pa.scalar(value).cast(rows[column].type)) for column, value in values.items()]
    except pa.ArrowException as error:
        raise UsageError(f"{dict(values)}: {error}") from error
    is_same = pc.fill_null(reduce(pc.and_, same), fill_value=False)
    return list(pc.indices_nonzero(is_same).to_pylist())
