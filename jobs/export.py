"""Write the recorded events as a JSON-lines event log, in order, for other tools and for reading back."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.tables import union_all
from namesrv_wire.event_log import line_of
from namesrv_wire.rows import Row
from schemas import bronze
from schemas.times import instant_us


def export(frames: Mapping[str, DataFrame], output: Path) -> int:
    """Write every event and answer of `frames` to `output`, ordered by name server and position; return the number of lines."""
    rows = union_all(
        frames[table.name].select(
            "namesrv_id",
            "seq",
            "event_id",
            F.lit(table.name).alias("table"),
            F.struct(*table.column_names).alias(table.name),
        )
        for table in bronze.RECORDED_TABLES
    )
    configs = {row["topic_config_digest"]: row.asDict(recursive=True) for row in frames["topic_configs"].collect()}
    lines = 0
    opener = gzip.open if output.suffix == ".gz" else open
    with opener(output, "wt", encoding="utf-8") as file:
        for row in rows.orderBy("namesrv_id", "seq", "event_id").toLocalIterator():
            values = row[row["table"]].asDict(recursive=True)
            for column in ("event_time", "effect_time"):
                values[column] = instant_us(values[column])
            file.write(line_of(Row(row["table"], values), configs.get(values.get("topic_config_digest"))) + "\n")
            lines += 1
    return lines
