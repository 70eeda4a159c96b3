"""What travels between the passes of a night: Arrow tables in files of the run's staging folder."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from jobs.store.places import filesystem_of


def put(folder: str, tables: Mapping[str, pa.Table]) -> str:
    """Write tables below `folder`, under a name that no other attempt has; return it."""
    place = f"{folder}/{uuid.uuid4().hex}"
    system, root = filesystem_of(place)
    system.create_dir(root)
    for name, table in tables.items():
        with (
            system.open_output_stream(f"{root}/{name}.arrow") as stream,
            pa.ipc.new_file(stream, table.schema) as writer,
        ):
            writer.write_table(table)
    return place


def take(
    places: Sequence[str], name: str, where: pc.Expression | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    """Return the rows of the table `name` in all of `places`, all or those `where`; all columns or some."""
    system, _ = filesystem_of(places[0])
    paths = [f"{filesystem_of(place)[1]}/{name}.arrow" for place in places]
    return ds.dataset(paths, format="ipc", filesystem=system).to_table(columns=columns, filter=where)
