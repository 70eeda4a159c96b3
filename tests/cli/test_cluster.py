"""A night on a real standalone cluster: master and workers are processes that see nothing of the project."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
from pathlib import Path

import pytest

from jobs.cli.output import Console
from jobs.conf import PipelineConf
from jobs.night import nightly
from jobs.passes import InProcess
from jobs.store.warehouse import Warehouse
from tests.cli.standalone import night_on, standalone
from tests.places import CAPTURE


@pytest.mark.slow
@pytest.mark.skipif("NAMESRV_CLUSTER" not in os.environ, reason="takes eight processes and minutes: NAMESRV_CLUSTER=1")
def test_a_cluster_gives_the_tables_of_one_machine(tmp_path: Path) -> None:
    """All gold tables have the digests of a local run, and both workers did their part with the packed environment."""
    with standalone(tmp_path / "cluster") as cluster:
        night = night_on(cluster, tmp_path / "summary.json")
        code = night.wait()
        assert code == 0, (tmp_path / "night.log").read_text(encoding="utf-8")
        for worker in ("worker-0", "worker-1"):
            (executor,) = (cluster.folder / worker).glob("app-*/*")
            assert "Finished task" in (executor / "stderr").read_text(encoding="utf-8")
            assert (executor / "environment" / "bin" / "python").is_file()
    on_cluster = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    now = dt.datetime.now(dt.timezone.utc)
    here = Warehouse(str(tmp_path / "here"), PipelineConf(), "run-here", now)
    local = nightly.run(here, InProcess(), nightly.Asked([str(CAPTURE)]), Console(io.StringIO(), io.StringIO()))
    assert on_cluster["digests"] == local.digests
    assert on_cluster["verify"] == local.verify
