"""What a query really opened: the files that its scans read, after all pruning."""

from __future__ import annotations

from pyspark.sql import DataFrame


def files_read(frame: DataFrame) -> int:
    """Run `frame` and return how many files of tables its plan has read."""
    execution = frame._jdf.queryExecution()
    execution.executedPlan().executeCollect()
    leaves = execution.executedPlan().collectLeaves()
    metrics = [leaves.apply(number).metrics() for number in range(leaves.size())]
    return sum(found.apply("numFiles").value() for found in metrics if found.contains("numFiles"))
