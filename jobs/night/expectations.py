"""The gate's only kind of expectation. Importing this module loads Great Expectations, which takes a second."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pandas as pd

from namesrv_day.rules import Measurement

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")


_GX = "great_expectations"
_ABSENT = ("boto3", "botocore", "pyspark", "pyspark.ml.feature")
_EMPTY = ("altair", "jsonschema", "scipy.stats")
_USED_OF_FLUENT = {"invalid_datasource", "pandas_datasource", "spark_datasource"}


class _Empty(ModuleType):
    """Stand-in for a module that is imported but not needed: each attribute is an empty class."""

    def __init__(self, name: str, folder: Path | None = None) -> None:
        super().__init__(name)
        self.__path__ = [] if folder is None else [str(folder)]

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


@contextmanager
def _only_what_is_used() -> Iterator[None]:
    """Let Great Expectations be imported without modules that it does not need here; that saves more than half of the time.

    These are third-party packages, which later imports get as usual; and its own modules that this process never uses:
    expectations, and readers of files and databases, for each of which it builds classes from the signatures of all functions.
    """
    spec = importlib.util.find_spec(_GX)
    [folder] = map(Path, spec.submodule_search_locations or []) if spec else []
    core, fluent = folder / "expectations" / "core", sorted((folder / "datasource" / "fluent").glob("*_datasource.py"))
    own = {f"{_GX}.expectations.core": _Empty(f"{_GX}.expectations.core", core)}
    for name in (f"{_GX}.datasource.fluent.{path.stem}" for path in fluent if path.stem not in _USED_OF_FLUENT):
        own[name] = _Empty(name)
    # None in sys.modules makes Python report the module as missing.
    others = {**dict.fromkeys(_ABSENT), **{name: _Empty(name) for name in _EMPTY}}
    others = {name: module for name, module in others.items() if name not in sys.modules}
    sys.modules.update({**others, **own})  # type: ignore[dict-item]
    try:
        yield
    finally:
        for name in others:
            sys.modules.pop(name, None)


with _only_what_is_used():
    import great_expectations as gx
    from great_expectations.data_context.types import base
    from great_expectations.expectations.expectation import BatchExpectation

_ROW = "broken_rows"


class ExpectNoBrokenRow(BatchExpectation):  # type: ignore[misc]  # Great Expectations is not typed
    """Expects that the count in `column` of the only row is 0; an unknown count fails."""

    column: str
    # The counts are given, so no metric is computed.
    metric_dependencies: ClassVar[tuple[str, ...]] = ()
    domain_keys: ClassVar[tuple[str, ...]] = ()

    def _validate(
        self, metrics: Any, runtime_configuration: Any = None, execution_engine: Any = None
    ) -> dict[str, Any]:
        del metrics, runtime_configuration
        [count] = execution_engine.batch_manager.active_batch_data.dataframe[self.column]
        broken = None if pd.isna(count) else int(count)
        return {"success": broken == 0, "result": {"observed_value": broken}}


def validated(by_table: Mapping[str, Sequence[Measurement]]) -> Iterator[tuple[str, Any]]:
    """Yield for each table the result of its suite on one row of counts: one expectation a rule, with the rule's name as column."""
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
        expectations = []
        for m in measurements:
            checked = f"not judged, needs {', '.join(m.missing)}" if m.missing else f"{m.rows:,} judged"
            says, severity = f"{m.says} ({m.severity}; {checked})", "info" if m.missing else m.severity
            expectations.append(ExpectNoBrokenRow(column=m.rule, description=says, severity=severity))
        suite = gx.ExpectationSuite(name=table, expectations=expectations)
        row = pd.DataFrame({m.rule: [m.broken] for m in measurements}, dtype="Int64")
        yield table, counts.get_batch(batch_parameters={"dataframe": row}).validate(suite)
