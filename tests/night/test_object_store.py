"""Inputs and warehouse on an S3-compatible server of this machine: the same tables, and no word of the credentials."""

from __future__ import annotations

import gzip
import io
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import BotoCoreError
from pyspark.sql import SparkSession

from jobs.__main__ import main
from jobs.cli.sql import register_views
from jobs.errors import UsageError
from jobs.ingest.ingest import ingest
from jobs.night import gate, nightly
from jobs.night.nightly import Asked
from jobs.passes import OnSpark
from jobs.store import places
from jobs.store.warehouse import DATA_TABLES, Warehouse
from namesrv_day.arrow import slices_of, sum_of
from tests.ingest.given import warehouse_at
from tests.night.nights import capture_in_two, counted, digests, night, silent
from tests.places import CHECKOUT

pytestmark = pytest.mark.slow

ID, SECRET = "planted-key-4711", "planted-secret-0815"
WAREHOUSE = "s3://bucket/wh"
HALVES = ("a.pcap.gz", "b.pcap.gz")


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    """Start a server and give a client of it; whoever reads the environment finds it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    url = f"http://127.0.0.1:{port}"
    with pytest.MonkeyPatch.context() as patched:
        said = {"ACCESS_KEY_ID": ID, "SECRET_ACCESS_KEY": SECRET, "ENDPOINT_URL": url, "ALLOW_HTTP": "true"}
        for name, value in {**said, "REGION": "us-east-1", "DEFAULT_REGION": "us-east-1"}.items():
            patched.setenv(f"AWS_{name}", value)
        places._remote.cache_clear()
        # In a process of its own: delta-rs holds Python's lock while it waits for an answer.
        server = subprocess.Popen([sys.executable, "-m", "moto.server", "-p", port], stderr=subprocess.DEVNULL)
        try:
            client = boto3.client("s3")
            for _ in range(300):
                try:
                    client.create_bucket(Bucket="bucket")
                    break
                except BotoCoreError:
                    time.sleep(0.1)
            yield client
        finally:
            server.terminate()
            server.wait()
            places._remote.cache_clear()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, store: Any) -> Path:
    """Give a folder with two captures and a warehouse after a night over each; the captures are in the store, too."""
    folder = tmp_path_factory.mktemp("local")
    for name, half in zip(HALVES, capture_in_two(60, 120), strict=True):
        with gzip.open(folder / name, "wb", compresslevel=1) as out:
            out.write(half)
        night(folder / "wh", folder / name)
        store.upload_file(str(folder / name), "bucket", f"in/{name}")
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder: Data Docs of a warehouse by URL are written there."""
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> tuple[int, str]:
    """Run a command in this process; return its exit code and all that it says."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = main(arguments)
    assert ID not in said.getvalue()
    assert SECRET not in said.getvalue()
    return code, said.getvalue()


@pytest.mark.usefixtures("elsewhere")
def test_nights_in_a_store_give_the_same_tables(
    store: Any, local: Path, tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    """Object by object, then a prefix with both: the digests of a local warehouse; care, questions, exports; no secret.

    `sql`, which needs a reader of its own for that in Spark's JVM, says so before it reads anything.
    """
    inputs = ["s3://bucket/in/a.pcap.gz", "s3a://bucket/in"]
    for given in inputs:
        summary = str(tmp_path / "summary.json")
        code, _ = run("nightly", "--in-process", "--input", given, "--warehouse", WAREHOUSE, "--summary", summary)
        assert code == 0
        request.getfixturevalue("ungated")  # the first one's Data Docs will do
    # What the warehouse below the input holds is no recording, unless it is the input itself.
    store.copy_object(Bucket="bucket", Key="wh/given/a.pcap.gz", CopySource="bucket/in/a.pcap.gz")
    for given in ("s3://bucket", "s3://bucket/wh/given"):
        code, said = run("nightly", "--in-process", "--input", given, "--warehouse", WAREHOUSE)
        assert (code, "Nothing new since run " in said) == (0, True)
    store.delete_object(Bucket="bucket", Key="wh/given/a.pcap.gz")
    expected = digests(local / "wh", DATA_TABLES)
    assert digests_in(WAREHOUSE) == expected
    questions = (["findings"], ["route-at", "TopicA", "2026-11-21 08:56"], ["query", "departures"])
    for question in questions:
        there = run("ask", *question, "--warehouse", WAREHOUSE, "--format", "json")
        assert there == run("ask", *question, "--warehouse", str(local / "wh"), "--format", "json")
        assert there[0] == 0
        assert question == ["query", "departures"] or there[1]
    # In a process of its own, in which nothing else has imported what reads Arrow.
    command = [sys.executable, "-m", "jobs", "ask", "findings", "--warehouse", WAREHOUSE]
    assert subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert run("maintain", "--retain-days", "0", "--warehouse", WAREHOUSE)[0] == 0
    assert run("check", "--warehouse", WAREHOUSE)[0] == 0
    assert digests_in(WAREHOUSE) == expected
    assert run("export", "--warehouse", WAREHOUSE, "--output", str(tmp_path / "log.jsonl"))[0] == 0
    assert run("export", "--warehouse", str(local / "wh"), "--output", str(tmp_path / "other.jsonl"))[0] == 0
    assert (tmp_path / "log.jsonl").read_bytes() == (tmp_path / "other.jsonl").read_bytes()
    assert_no_secret(store, tmp_path)
    with pytest.raises(UsageError, match="Spark's JVM has no file system s3a://"):
        register_views(spark, opened(WAREHOUSE), texts=["findings"])


def opened(url: str, run_id: str = "look") -> Warehouse:
    warehouse = warehouse_at(Path("unused"), run_id)
    warehouse.path = url
    return warehouse


def digests_in(url: str) -> dict[str, Any]:
    """Return the digests of the gold tables, as they were published in a store."""
    found = opened(url)
    return {table.name: sum_of(slices_of(table.name, found.published_rows(table)).values()) for table in DATA_TABLES}


def assert_no_secret(store: Any, folder: Path) -> None:
    """Look for the credentials in every object below the warehouse and every file that was written beside it."""
    listed = store.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix="wh")
    keys = [item["Key"] for page in listed for item in page["Contents"]]
    contents = [store.get_object(Bucket="bucket", Key=key)["Body"].read() for key in keys]
    contents += [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert len(contents) > 50
    for content in contents:
        assert SECRET.encode() not in content
        assert ID.encode() not in content


@pytest.mark.usefixtures("elsewhere")
def test_what_a_store_does_not_have_is_said(store: Any, tmp_path: Path) -> None:
    """A bucket, an object, a warehouse without a night, a store that is not there: a sentence and a code each."""
    log = tmp_path / "log.jsonl"
    log.write_text("")
    assert run("nightly", "--in-process", "--input", str(log), "--warehouse", "s3://no-bucket/wh") == (
        2,
        "namesrv-history: s3://no-bucket/wh: there is no bucket no-bucket\n",
    )
    code, said = run("ingest", "--input", "s3://bucket/nothing", "--warehouse", "s3://bucket/new")
    assert (code, said) == (2, "namesrv-history: input s3://bucket/nothing: no such object, and nothing below it\n")
    store.put_object(Bucket="bucket", Key="empty/none.pcap", Body=b"")
    code, said = run("ingest", "--input", "s3://bucket/empty", "--warehouse", "s3://bucket/other")
    assert (code, "s3://bucket/empty/none.pcap at byte 0: not a capture" in said) == (3, True)
    assert run("ask", "findings", "--warehouse", "s3://no-bucket/wh")[0] == 2
    code, said = run("ask", "findings", "--warehouse", "s3://bucket/new")
    assert (code, "no run with status 'published'" in said) == (6, True)
    code, said = run("check", "--warehouse", "nowhere://bucket/wh")
    assert (code, said.splitlines()[0].startswith("namesrv-history: nowhere://bucket: cannot be reached")) == (2, True)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    "url", [f"s3://{ID}:{SECRET}@bucket/wh", f"s3://bucket/wh?secret_key={SECRET}&access_key={ID}"]
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str, tmp_path: Path) -> None:
    """Whoever reads the log of a refused command learns nothing (`run` looks); no store is asked."""
    (tmp_path / "log.jsonl").write_text("")
    for command in (
        ["check"],
        ["ask", "findings"],
        ["nightly", "--in-process", "--input", str(tmp_path / "log.jsonl")],
    ):
        code, said = run(*command, "--warehouse", url)
        assert code == 2
        assert "belong in the environment" in said
    assert run("ingest", "--input", url, "--warehouse", str(tmp_path / "wh"))[0] == 2


@pytest.mark.usefixtures("store", "elsewhere")
def test_tasks_of_spark_read_and_write_in_a_store(
    local: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    """Spark carries the work and needs no reader of its own: the digests of a local warehouse.

    On a cluster the driver, where nothing of a store can be opened here, lists what there is, and tasks read it.
    """
    for name in (name for name in os.environ if name.startswith("AWS_")):
        monkeypatch.setitem(spark.sparkContext.environment, name, os.environ[name])
    url, passes = "s3://bucket/by-tasks", OnSpark(lambda: spark)
    with monkeypatch.context() as on_a_cluster:
        on_a_cluster.setattr("jobs.ingest.reading._WORTH_ASKING", 0)
        on_a_cluster.setattr("jobs.ingest.reading.is_meant_for_cluster", lambda: True)
        on_a_cluster.setattr(places.Stored, "open", None)
        found = ingest(opened(url), ["s3://bucket/in"], passes)
    assert (found.sources, found.errors) == (list(HALVES), [])
    monkeypatch.setattr(gate, "validate", counted)
    assert nightly.run(opened(url, "run"), passes, Asked([]), silent()).status == "published"
    assert digests_in(url) == digests(local / "wh", DATA_TABLES)
    assert SECRET not in "".join(capfd.readouterr())
