"""The chain: who has kept a checkpoint finds every rewrite of what was published, and what changed as it should is told apart."""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
import re
import runpy
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization as of
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from jobs.__main__ import main
from jobs.audit.checkpoint import checkpoint_line, kept_checkpoint
from jobs.errors import EXIT_OK, EXIT_USAGE, BrokenLogError, JobError, LedgerBehindError, TamperedError, UsageError
from jobs.store import ledger as chain
from jobs.store.check import check
from jobs.store.ledger import leaf_of, nodes_beside, root_of, texts_of
from jobs.store.maintain import maintain
from jobs.store.places import table_path
from jobs.store.published import LAST_RUN
from namesrv_day.arrow import table_of
from schemas import gold
from tests.examples import more
from tests.places import CHECKOUT
from tests.store.tiny import DAY, EXPIRED, NOW, opened, publish, warehouse_at, write
from tests.torture.attacks import ATTACKS
from tests.torture.rewrites import DAYS, KINDS, everywhere, in_place, in_the_ledger, publish_night, published, rewrite


@pytest.mark.parametrize("seed", range(more(len(KINDS))))
def test_no_rewrite_is_hidden_from_who_has_kept_a_checkpoint(tmp_path: Path, seed: int) -> None:
    """Ledger, notes, data files, Delta logs, and all of them together with hashes made anew by our own code."""
    assert rewrite(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_what_somebody_does_who_knows_this_software_is_named(tmp_path: Path, attack: Callable[[Path], None]) -> None:
    """The ledger, its files, logs with their checkpoints and checksums, later runs, other files: the sentence says where."""
    original, checkpoint = published()
    path = Path(shutil.copytree(original, tmp_path / "w"))
    attack(path)
    try:
        checked = check(warehouse_at(path), checkpoint)
        said = "\n".join([*checked.wrong, *checked.replaced])
    except JobError as error:
        said = str(error)
    assert re.search(ATTACKS[attack], said), said


@pytest.mark.parametrize("said", ["[1]", '{"allFiles": [1]}', '{"metadata": {"schemaString": "{"}}', "1"])
def test_a_checksum_that_no_writer_would_write_is_named(tmp_path: Path, said: str) -> None:
    """Beside a commit that is as it was: the check says which version, and goes on."""
    publish_night(tmp_path, 0, DAYS[0])
    name = f"{0:020d}"
    Path(table_path(str(tmp_path), gold.TOPIC_QUEUE_HISTORY), "_delta_log", f"{name}.crc").write_text(said)
    (sentence,) = check(warehouse_at(tmp_path)).wrong
    assert name in sentence
    assert "checksum" in sentence


@pytest.mark.parametrize(
    "said", ["[1]", '{"add": 1}', '{"remove": {}}', '{"add": {"path": "x", "partitionValues": {"day": "today"}}}']
)
def test_a_commit_that_no_writer_would_write_is_refused(tmp_path: Path, said: str) -> None:
    """Above what is published: a sentence with the file, and no night starts from it."""
    publish_night(tmp_path, 0, DAYS[0])
    log = Path(table_path(str(tmp_path), gold.TOPIC_QUEUE_HISTORY), "_delta_log")
    name = f"{len([*log.glob('*.json')]):020d}.json"
    (log / name).write_text(said)
    with pytest.raises(BrokenLogError, match=name):
        warehouse_at(tmp_path, "run-9", NOW).start_from_published()


@pytest.mark.parametrize(
    ("name", "value"), [("finished_time", "2026-01-01T00:00:00"), ("run_id", ["x"]), ("sha256", 5)]
)
def test_a_note_of_other_types_is_refused(tmp_path: Path, name: str, value: object) -> None:
    """Somebody has edited what stands beside the tables: a sentence with its name, as for a half one."""
    publish_night(tmp_path, 0, DAYS[0])
    note = tmp_path / LAST_RUN
    note.write_text(json.dumps({**json.loads(note.read_text()), name: value}))
    with pytest.raises(LedgerBehindError):
        check(warehouse_at(tmp_path))


def test_a_checkpoint_with_another_time_is_none(tmp_path: Path) -> None:
    """Run and hash are right, but published is said to have been earlier: refused beside the tables, named as a kept line."""
    publish_night(tmp_path, 0, DAYS[0])
    kept = warehouse_at(tmp_path).checkpoint()
    assert kept is not None
    earlier = kept._replace(finished_time=kept.finished_time - dt.timedelta(days=1))
    assert not check(warehouse_at(tmp_path), kept).wrong
    (said,) = check(warehouse_at(tmp_path), earlier).wrong
    assert re.search(f"was rewritten: run {kept.run_id}, .* of 2.*the checkpoint says {kept.sha256} of 2", said)
    (tmp_path / LAST_RUN).write_text(earlier.text())
    with pytest.raises(LedgerBehindError):
        check(warehouse_at(tmp_path))


def nights(path: Path, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        publish_night(path, number, DAYS[0])


@pytest.mark.slow
def test_what_changes_as_it_should_is_told_apart(tmp_path: Path) -> None:
    """Nights that add, maintenance that puts files together and deletes old ones: nothing wrong, nothing replaced.

    A day that is recomputed is named, with the run that did it; the root of what it replaced stays in the chain.
    """
    nights(tmp_path, 4)
    kept = warehouse_at(tmp_path).checkpoint()
    maintain(warehouse_at(tmp_path, "care", NOW + dt.timedelta(days=500)), retain_days=0)
    publish_night(tmp_path, 5, DAYS[1])
    maintain(warehouse_at(tmp_path, "again", NOW + dt.timedelta(days=501)), retain_days=0)
    merged = [file.path for file in warehouse_at(tmp_path).files(gold.TOPIC_QUEUE_HISTORY)]
    assert sum("compacted" in path for path in merged) == 1
    checked = check(warehouse_at(tmp_path), kept)
    assert (checked.wrong, checked.replaced) == ([], [])
    publish_night(tmp_path, 6, DAYS[0])
    checked = check(warehouse_at(tmp_path), kept)
    assert checked.wrong == []
    assert checked.replaced == [
        f"run run-6 has replaced 1 file(s) of expired_brokers, day={DAYS[0]}",
        f"run run-6 has added 1 file(s) to expired_brokers, day={DAYS[0]}",
        f"run run-6 has added 1 file(s) to heartbeats, day={DAYS[0]}",
        "run run-6 has added 1 file(s) to topic_queue_history, closed_month=2026-11",
        f"run run-6 has published again: {DAYS[0]}",
    ]


@pytest.mark.slow
def test_files_of_others_with_the_same_rows_are_listed_and_no_error(tmp_path: Path) -> None:
    """An OPTIMIZE: its statistics are of more columns than ours, and true; nothing proves its rows, before a night and after."""
    nights(tmp_path, 3)
    kept = warehouse_at(tmp_path).checkpoint()
    table = opened(tmp_path, gold.TOPIC_QUEUE_HISTORY)
    table.optimize.compact()
    table.create_checkpoint()
    checked = check(warehouse_at(tmp_path), kept)
    folder = "topic_queue_history, closed_month=2026-11"
    assert (checked.wrong, checked.replaced) == ([], [f"somebody has replaced files of {folder}: 1 new"])
    publish_night(tmp_path, 3, DAYS[1])
    checked = check(warehouse_at(tmp_path), kept)
    assert checked.wrong == []
    assert f"run run-3 has replaced 3 file(s) of {folder}" in checked.replaced


def test_a_run_that_died_and_one_that_was_refused_are_no_rewrite(tmp_path: Path) -> None:
    """What nobody published may lie about; the refused run is a row of the chain."""
    nights(tmp_path, 2)
    kept = warehouse_at(tmp_path).checkpoint()
    dead = warehouse_at(tmp_path, "dead")
    dead.change(EXPIRED, [write(dead, EXPIRED, DAY, {"namesrv_id": "n"})])
    dead.commit()
    warehouse_at(tmp_path, "refused").note_run([DAY], {"status": "refused", "gate": "a rule"})
    log = tmp_path / "gold" / "expired_brokers" / "_delta_log"
    for left in ("00000000000000000009.json#1", "_commit_1.json.tmp", ".00000000000000000001.json.crc"):
        (log / left).touch()
    publish_night(tmp_path, 3, DAYS[2])
    assert check(warehouse_at(tmp_path), kept).wrong == []


def test_a_night_hashes_no_run_before_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are; `check` hashes each. What is listed is held against the last row, so are the ledger's bytes."""
    hashed: list[str] = []
    link = chain.link_of

    def counted(*of: str) -> str:
        hashed.append(of[0])
        return link(*of)

    monkeypatch.setattr(chain, "link_of", counted)
    counts = []
    for number in range(6):
        hashed.clear()
        publish_night(tmp_path, number, DAYS[number % 4])
        counts.append(len(hashed))
    assert counts[1] == counts[5]
    hashed.clear()
    assert check(warehouse_at(tmp_path)).wrong == []
    assert len(hashed) >= 6
    folder = tmp_path / "gold" / "runs"
    (file,) = folder.glob("run-1-*.parquet")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(TamperedError, match=r"runs: .*run-1-"):
        publish_night(tmp_path, 6, DAYS[0])


def test_files_that_another_row_lists_end_a_night(tmp_path: Path) -> None:
    """An earlier row, rewritten with a file of its own that is whole: a night looks at no hash of it, but at what is listed."""
    nights(tmp_path, 3)
    warehouse = warehouse_at(tmp_path, "run-9")
    rows = sorted(warehouse.rows(gold.RUNS).to_pylist(), key=lambda row: row["finished_time"])
    next(of for of in rows[1]["files"] if of["path"].startswith("closed_month"))["sha256"] = "0" * 64
    warehouse.write(gold.RUNS, table_of(rows, gold.RUNS), instead=warehouse.files(gold.RUNS))
    warehouse.commit([gold.RUNS])
    with pytest.raises(TamperedError, match="the files that it lists"):
        publish_night(tmp_path, 3, DAYS[1])
    with pytest.raises(TamperedError, match="does not follow"):
        check(warehouse_at(tmp_path))


def test_a_row_is_proven_by_its_run_with_less_than_2_kb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`check --prove` prints it, and a script that knows SHA-256 and the checkpoint alone follows it; of no other row, or line.

    Also of rows that maintenance has put together with others, and as of an earlier run.
    """
    rows = [
        {"namesrv_id": "n", "topic": f"T{number}", "broker_name": "b", "valid_from": NOW} for number in range(3_000)
    ]
    warehouse = warehouse_at(tmp_path)
    warehouse.change(gold.TOPIC_QUEUE_HISTORY, [write(warehouse, gold.TOPIC_QUEUE_HISTORY, None, *rows)])
    warehouse.commit()
    publish(warehouse, [DAY])
    (first, proof), asked = proven(tmp_path, capsys, "T1234"), ("topic=T1234", f"valid_from={NOW.isoformat()}")
    assert '\\"T1234\\"' in proof
    assert len(proof.encode()) < 2_000
    assert followed(proof, first) == (0, "proven: topic_queue_history")
    assert (
        followed(proof.replace("T1234", "T1235"), first)[0]
        == followed(proof, "0" * 64)[0]
        == followed("", first)[0]
        == 8
    )

    nights(tmp_path, 4, 1)
    maintain(warehouse_at(tmp_path, "care", NOW + dt.timedelta(days=500)), retain_days=0)
    publish_night(tmp_path, 5, DAYS[1])
    now, proof = proven(tmp_path, capsys, "U2")
    assert followed(proof, now)[0] == 0
    assert followed(proven(tmp_path, capsys, *asked)[1], now)[0] == 0
    words = ["check", "--warehouse", str(tmp_path), "--prove"]
    for said, named in (
        (["none", "a=1"], "none"),
        (["findings", "x=1"], "x"),
        (["topic_queue_history", "topic=X"], "no row"),
        (["findings"], "COLUMN"),
    ):
        assert main([*words, *said]) == EXIT_USAGE
        assert named in capsys.readouterr().err


def proven(path: Path, capsys: pytest.CaptureFixture[str], *said: str) -> tuple[str, str]:
    """Return the last checkpoint's hash and the proof of a row of topic_queue_history, found by its topic, or as said."""
    columns = [one if "=" in one else f"topic={one}" for one in said]
    assert main(["check", "--warehouse", str(path), "--prove", "topic_queue_history", *columns]) == EXIT_OK
    checkpoint = warehouse_at(path).checkpoint()
    assert checkpoint is not None
    (proof,) = capsys.readouterr().out.splitlines()
    return checkpoint.sha256, proof


def followed(proof: str, checkpoint: str) -> tuple[int, str]:
    """Return the exit code of the script, and how its answer begins."""
    command = [sys.executable, "-I", str(CHECKOUT / "examples" / "verify_proof.py"), checkpoint]
    done = subprocess.run(command, input=proof, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.partition(" [")[0]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 100])
def test_each_leaf_of_a_tree_is_proven(count: int) -> None:
    """Whatever the number of leaves; another leaf leads elsewhere."""
    from_leaf = runpy.run_path(str(CHECKOUT / "examples" / "verify_proof.py"))["root"]
    leaves = [leaf_of(str(number)) for number in range(count)]
    ways = [(index, count, base64.b64encode(nodes_beside(leaves, index)).decode()) for index in range(count)]
    assert all(from_leaf(str(way[0]), *way) == root_of(leaves) for way in ways)
    assert all(from_leaf("x", *way) != root_of(leaves) for way in ways)


def test_a_signed_checkpoint_is_a_checkpoint(tmp_path: Path) -> None:
    """The line, or a file with it, with the words before it or without; with another letter it is refused."""
    key = tmp_path / "key.pem"
    pem = Ed25519PrivateKey.generate().private_bytes(of.Encoding.PEM, of.PrivateFormat.PKCS8, of.NoEncryption())
    key.write_bytes(pem)
    path, checkpoint = published()
    line = checkpoint_line(checkpoint, str(key), None)
    (tmp_path / "kept").write_text(f"Checkpoint   {line}\n", encoding="utf-8")
    lines = (line, checkpoint.text(), str(tmp_path / "kept"), str(path / LAST_RUN))
    assert {kept_checkpoint(given) for given in lines} == {checkpoint}
    with pytest.raises(TamperedError, match="its signature is not"):
        kept_checkpoint(line.replace(checkpoint.sha256, "0" * 64))
    for wrong in ("{", "{}", str(tmp_path / "none"), json.dumps({"run_id": 1})):
        with pytest.raises(UsageError, match="checkpoint"):
            kept_checkpoint(wrong)
    with pytest.raises(UsageError, match="cannot be read"):
        checkpoint_line(checkpoint, str(tmp_path / "kept"), None)


_TSA = """
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out tsa.pem -subj /CN=tsa \\
  -addext extendedKeyUsage=critical,timeStamping 2> /dev/null
echo 01 > serial
printf '[t]\\ndefault_tsa=s\\n[s]\\nserial=serial\\nsigner_cert=tsa.pem\\nsigner_key=key.pem\\ncerts=tsa.pem\\nsigner_digest=sha256
default_policy=1.2.3\\ndigests=sha256\\n' > tsa.cnf
"""


def test_a_time_stamp_is_proven_by_openssl_as_documented(tmp_path: Path) -> None:
    """A service made of openssl stamps the line; the page's commands verify it; of another line, or none, it is refused."""
    subprocess.run(["/bin/sh", "-ec", _TSA], cwd=tmp_path, check=True)

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            (tmp_path / "query").write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
            reply = ["openssl", "ts", "-reply", "-config", "tsa.cnf", "-section", "s", "-queryfile", "query"]
            answer = subprocess.run(reply, cwd=tmp_path, check=True, capture_output=True).stdout
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer if self.path == "/" else b"no")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    path, checkpoint = published()
    try:
        printed = subprocess.run(
            [sys.executable, "-m", "jobs", "check", "--warehouse", str(path), "--timestamp", url],
            cwd=CHECKOUT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for wrong, said in ((f"{url}/not", "2 bytes is no time stamp"), ("file:///etc/passwd", "URL of a time stamp")):
            with pytest.raises(JobError, match=said):
                checkpoint_line(checkpoint, None, wrong)
    finally:
        server.shutdown()
        server.server_close()  # who asks from here on is refused at once
    with pytest.raises(JobError, match="time stamp service"):
        checkpoint_line(checkpoint, None, url)
    line = printed[printed.index("{") :]
    (tmp_path / "kept").write_text(line, encoding="utf-8")
    assert kept_checkpoint(line) == checkpoint
    with pytest.raises(TamperedError, match="of another line"):
        kept_checkpoint(line.replace(checkpoint.sha256, "0" * 64))
    (typed,) = re.findall(
        r"^```bash\n(.*?openssl ts.*?)^```",
        (CHECKOUT / "docs" / "auditors.md").read_text("utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    for text, code in ((line, 0), (line.replace(checkpoint.sha256, "0" * 64), 1)):
        (tmp_path / "kept").write_text(text, encoding="utf-8")
        assert (
            subprocess.run(["/bin/sh", "-ec", typed], cwd=tmp_path, capture_output=True, check=False).returncode == code
        )


def test_rows_of_a_run_are_texts_of_all_types() -> None:
    """Instants and days are numbers wherever they stand, maps are pairs, what is NULL is null."""
    row = {"run_id": "é\x1f", "days": [DAY], "versions": [("t", 1)], "seconds": [("s", 0.5)], "finished_time": NOW}
    (text,) = texts_of(
        table_of([row], gold.RUNS).select(["run_id", "days", "versions", "seconds", "finished_time", "report"])
    )
    assert text == '["é\\u001f",[20778],[["t",1]],[["s",0.5]],1795392000000000,null]'


# -- the verifier that imports nothing of ours -------------------------------------------------------------------------


def verified(warehouse: Path, *words: str) -> tuple[int, str]:
    """Run it in a process in which our packages are not to be found; return its exit code and what it says."""
    command = [sys.executable, "-I", str(CHECKOUT / "examples" / "verify.py"), str(warehouse), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=warehouse)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_verifier_agrees_with_check(tmp_path: Path) -> None:
    """It is short, knows nothing of ours, and derives the same chain; it sees what was rewritten, and a checkpoint that is gone."""
    text = (CHECKOUT / "examples" / "verify.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 250
    assert set(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)) - sys.stdlib_module_names == {"pyarrow"}
    original, checkpoint = published()
    code, said = verified(original, checkpoint.text())
    assert (code, "WRONG" in said) == (0, False), said
    assert f"the chain ends with {checkpoint.sha256}" in said
    for kind, seed in ((in_place, 1), (everywhere, 2), (in_the_ledger, 3)):
        path = Path(shutil.copytree(original, tmp_path / kind.__name__))
        kind(path, random.Random(seed))
        code, said = verified(path, checkpoint.text())
        assert (code, "WRONG: " in said) == (8, True), said
