"""The one kind of expectation that the gate has. Whoever imports this module loads Great Expectations, which takes seconds."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pandas as pd

from namesrv_day.gate.rules import Measurement

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")


@contextmanager
def _only_what_is_used() -> Iterator[None]:
    """Have Great Expectations imported without what it works without, and its statistics when somebody asks for them.

    That is a third of the time it takes. Who imports one of these modules afterwards gets it as ever.
    """
    if "scipy.stats" not in sys.modules and (spec := importlib.util.find_spec("scipy.stats")) and spec.loader:
        spec.loader = importlib.util.LazyLoader(spec.loader)
        later = sys.modules["scipy.stats"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(later)
        importlib.import_module("scipy").stats = later  # type: ignore[attr-defined]
    absent = [name for name in ("boto3", "botocore", "pyspark.ml.feature") if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]  # Python's own way to say that there is none
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)


with _only_what_is_used():
    import great_expectations as gx
    from great_expectations.data_context.types import base
    from great_expectations.expectations.expectation import BatchExpectation

_ROW = "broken_rows"


class ExpectNoBrokenRow(BatchExpectation):  # type: ignore[misc]  # Great Expectations is not typed
    """That the count in `column`, of the one row there is, is 0; an unknown count is not."""

    column: str
    # What is to be judged has been counted: no metric need be computed.
    metric_dependencies: ClassVar[tuple[str, ...]] = ()
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id", "column")

    def _validate(
        self, metrics: Any, runtime_configuration: Any = None, execution_engine: Any = None
    ) -> dict[str, Any]:
        del metrics, runtime_configuration
        [count] = execution_engine.batch_manager.active_batch_data.dataframe[self.column]
        broken = None if pd.isna(count) else int(count)
        return {"success": broken == 0, "result": {"observed_value": broken}}


def validated(by_table: Mapping[str, Sequence[Measurement]]) -> Iterator[tuple[str, Any]]:
    """Yield for each table the result of its suite on one row of counts: an expectation for each rule, named by its column."""
    context = gx.get_context(
        mode="ephemeral",
        project_config=base.DataContextConfig(
            store_backend_defaults=base.InMemoryStoreBackendDefaults(),
            analytics_enabled=False,
            progress_bars=base.ProgressBarsConfig(globally=False),
        ),
    )
    counts = (
        context.data_sources.add_pandas("gate").add_dataframe_asset("counts").add_batch_definition_whole_dataframe(_ROW)
    )
    for table, measurements in by_table.items():
        row = pd.DataFrame({m.rule: [m.broken] for m in measurements}, dtype="Int64")
        yield table, counts.get_batch(batch_parameters={"dataframe": row}).validate(_suite(table, measurements))


def _suite(table: str, measurements: Sequence[Measurement]) -> Any:
    expectations = []
    for m in measurements:
        judged = f"not judged, needs {', '.join(m.missing)}" if m.missing else f"{m.rows:,} judged"
        expectations.append(
            ExpectNoBrokenRow(
                column=m.rule,
                description=f"{m.says} ({m.severity}; {judged})",
                severity="info" if m.missing else m.severity,
            )
        )
    return gx.ExpectationSuite(name=table, expectations=expectations)
