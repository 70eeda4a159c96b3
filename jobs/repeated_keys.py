"""Count how often a key is there more than once among very many, without grouping them.

Where no 64-bit hash of a key is there twice, no key is. Sorting tens of millions of such numbers takes a Python worker less
than it takes Spark to put each into a hash table.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

# A worker holds one part at a time: of a thousand million keys, 250 MB.
_PARTS = 32
_COUNTED = "rows BIGINT, repeated BIGINT"


def repeated_hashes(keys: DataFrame) -> tuple[int, int]:
    """Return how many rows there are, and how many of them have a hash that another row has had; at least one for each copy.

    Keys with equal hashes need not be equal: more than 0 says that copies have to be looked for.
    """
    hashes = keys.select(F.xxhash64(*keys.columns).alias("hash")).repartition(_PARTS, "hash")
    counted = hashes.mapInArrow(_counted, _COUNTED).agg(
        F.sum("rows").alias("rows"), F.sum("repeated").alias("repeated")
    )
    row = counted.collect()[0]
    return row["rows"] or 0, row["repeated"] or 0


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count the hashes of one part; equal ones are in the same part."""
    hashes = np.concatenate([np.empty(0, dtype=np.int64), *(batch.column(0).to_numpy() for batch in batches)])
    hashes.sort()
    repeated = int(np.count_nonzero(hashes[1:] == hashes[:-1]))
    yield pa.RecordBatch.from_pydict({"rows": [len(hashes)], "repeated": [repeated]})
