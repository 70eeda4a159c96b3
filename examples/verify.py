"""Verify a warehouse of namesrv-history without its software: `python verify.py WAREHOUSE [CHECKPOINT] [--capture FILE ...]`.

Needs Python 3.10 and pyarrow. CHECKPOINT is a line that a run printed, or a file with it. What is verified:
- the chain: each row of the ledger follows from the one before, and the checkpoint is in it;
- every file that the chain names has the bytes that were published, its rows have the Merkle root that was published, and the
  Delta logs name these files and no others;
- every recorded answer to a question for a route is looked up in the published histories, and all answers are counted;
- captures that are given are among those that were read.
docs/auditors.md describes each hash. Exit codes: 0 verified; 8 something is not as it was published; 2 it cannot be read.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import re
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

EPOCH, Key = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc), tuple[str, str]
COUNTED = ("readQueueNums", "writeQueueNums", "perm")
wrong: list[str] = []


def text(value: Any) -> str:
    """Return a value as compact JSON; instants are microseconds since 1970, days are days since then."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=number)


def number(value: Any) -> int:
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // dt.timedelta(microseconds=1)
    return (value - EPOCH.date()).days


def texts(rows: pa.Table) -> list[str]:
    times = (pa.types.is_timestamp(column.type) for column in rows.columns)
    columns = (of.cast(pa.int64()) if is_time else of for of, is_time in zip(rows.columns, times, strict=True))
    return [text(row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]


def leaf(line: str) -> bytes:
    return hashlib.sha256(b"\0" + line.encode()).digest()


def root(leaves: list[bytes]) -> str:
    """Return the root of a Merkle tree: nodes are joined in pairs, one that is left over goes up as it is."""
    level = leaves or [hashlib.sha256(b"").digest()]
    while len(level) > 1:
        pairs = [hashlib.sha256(b"\1" + one + two).digest() for one, two in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[2 * len(pairs) :]
    return level[0].hex()


def folder_of(warehouse: Path, table: str) -> Path:
    return next((path.parent for path in warehouse.glob(f"*/{table}/_delta_log")), warehouse / "gold" / table)


def state_of(table: Path, version: int | None = None) -> tuple[set[str], dict[str, str]]:
    """Return the data files that a version of a table names, the newest by default, and the properties of the table."""
    commits = sorted((table / "_delta_log").glob("*.json"))
    last = int(commits[-1].stem) if version is None else version
    checkpoints = [int(path.name[:20]) for path in (table / "_delta_log").glob("*.checkpoint.parquet")]
    first, actions = max((one for one in checkpoints if one <= last), default=-1), list[dict[str, Any]]()
    if first >= 0:
        actions = pq.read_table(table / "_delta_log" / f"{first:020d}.checkpoint.parquet").to_pylist()
    for one in range(first + 1, last + 1):
        lines = (table / "_delta_log" / f"{one:020d}.json").read_text("utf-8").splitlines()
        actions += [json.loads(line) for line in lines]
    found, properties = set[str](), dict[str, str]()
    for action in actions:
        found.discard(unquote((action.get("remove") or {"path": ""})["path"]))
        found |= {unquote(action["add"]["path"])} if action.get("add") else set()
        properties = dict((action.get("metaData") or {"configuration": properties})["configuration"])
    return found, properties


def rows_of(warehouse: Path, files: dict[Key, Any], table: str) -> list[dict[str, Any]]:
    """Return the rows of the table's files, of one that is cut by day with their days."""
    paths = sorted(path for of, path in files if of == table and not path.startswith("_delta_log/"))
    read = ((path, pq.ParquetFile(folder_of(warehouse, table) / path).read().to_pylist()) for path in paths)
    return [{**row, "day": re.sub(r".*day=([-0-9]+)/.*", r"\1", path)} for path, rows in read for row in rows]


def places_of(of: dict[str, Any]) -> set[tuple[str, ...]]:
    return {(of["table"], str(Path(of["path"]).parent), piece["root"]) for piece in of["pieces"]}


def verified_chain(warehouse: Path, checkpoint: dict[str, Any] | None) -> tuple[dict[Key, Any], dict[str, Any]]:
    """Return the files that the last row of the ledger has, and the last published row."""
    ledger = folder_of(warehouse, "runs")
    parts = [pq.ParquetFile(ledger / path).read() for path in sorted(state_of(ledger)[0])]
    runs = pa.concat_tables(parts).sort_by([("finished_time", "ascending"), ("run_id", "ascending")])
    previous, links, files = "0" * 64, dict[str, tuple[str, str]](), dict[Key, Any]()
    then, hashes, replaced = dict[Key, Any](), dict[Key, bytes](), list[tuple[str, Any]]()
    for line, row in zip(texts(runs), runs.to_pylist(), strict=True):
        if row["previous_sha256"] != previous:
            wrong.append(f"the ledger's row {row['run_id']} does not follow from the one before")
        said = f"{previous} {row['files_root']} {hashlib.sha256(line.encode()).hexdigest()}"
        links[row["run_id"]] = previous, _ = hashlib.sha256(said.encode()).hexdigest(), row["finished_time"].isoformat()
        for gone in row["gone"]:
            key = (gone["table"], gone["path"])
            replaced += [(row["run_id"], then.pop(key))] if key in then else []
            files.pop(key, None)
        files |= {(one["table"], one["path"]): one for one in row["files"]}
        hashes |= {(one["table"], one["path"]): leaf(text(one)) for one in row["files"]}
        if row["files_root"] != root([hashes[key] for key in sorted(files) if not key[1].startswith("_delta_log/")]):
            wrong.append(f"the files of run {row['run_id']} are not those of its root")
        if checkpoint is not None and row["run_id"] == checkpoint["run_id"]:
            then = dict(files)
    if checkpoint and (checkpoint["sha256"], checkpoint["finished_time"]) != links.get(checkpoint["run_id"]):
        wrong.append(f"run {checkpoint['run_id']}, which the checkpoint names, was rewritten or is gone")
    kept = {piece for of in files.values() for piece in places_of(of)}
    for run, of in replaced:
        if not (of["pieces"] and kept >= places_of(of)):
            print(f"since the checkpoint run {run} has replaced {of['table']}/{of['path']}")
    published = [row for row in runs.to_pylist() if row["status"] == "published"]
    print(f"{len(links)} rows of the ledger, {len(files):,} files; the chain ends with {previous}")
    return files, published[-1]


def verify_files(warehouse: Path, files: dict[Key, Any], last: dict[str, Any]) -> None:
    versions = dict(last["versions"])
    for table in sorted({table for table, _ in files}):
        paths = {path for of, path in files if of == table and not path.startswith("_delta_log/")}
        named, _ = state_of(folder_of(warehouse, table), versions.get(table))
        if (table in versions and named != paths) or not named >= paths:
            wrong.append(f"{table}: the Delta log names other files than were published")
    oldest = json.loads(state_of(folder_of(warehouse, "runs"))[1].get("namesrvHistory.oldestVersions", "{}"))
    for (table, path), entry in files.items():
        file = folder_of(warehouse, table) / path
        if path.startswith("_delta_log/") and not file.is_file():
            if int(file.stem) >= oldest.get(table, 0):
                wrong.append(f"{table}/{path} is gone")
        elif not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != entry["sha256"]:
            wrong.append(f"{table}/{path} does not have the bytes that were published")
        elif entry["pieces"]:
            leaves, start = [leaf(line) for line in texts(pq.ParquetFile(file).read())], 0
            for piece in entry["pieces"]:
                if root(leaves[start : start + piece["rows"]]) != piece["root"]:
                    wrong.append(f"{table}/{path}: its rows from {start} on have another Merkle root")
                start += piece["rows"]


def route_in(body: str) -> dict[str, Any]:
    """Return the queues and the addresses of a route by broker name; fastjson writes keys that are numbers without quotes."""
    said = json.loads(re.sub(r"([{,])(-?\d+):", r'\1"\2":', body))
    queues = {of["brokerName"]: tuple(of.get(name, 0) for name in COUNTED) for of in said.get("queueDatas") or ()}
    brokers = {one["brokerName"]: one.get("brokerAddrs") or {} for one in said.get("brokerDatas") or ()}
    return {"queues": queues, "brokers": brokers}


class Histories:
    """Queues and members by what they are about, and when either changed."""

    def __init__(self, queues: list[dict[str, Any]], members: list[dict[str, Any]]) -> None:
        self.queues, self.members, self.changes = defaultdict(list), defaultdict(list), defaultdict(list)
        for rows, by, name in ((queues, self.queues, "topic"), (members, self.members, "broker_name")):
            for row in rows:
                by[row["namesrv_id"], row[name]].append(row)
                ends = (end for end in (row["opened_at"], row["closed_at"]) if end is not None)
                self.changes[row["namesrv_id"]] += [end["seq"] for end in ends]
        for seqs in self.changes.values():
            seqs.sort()

    def routes(self, namesrv: str, topic: str, since: int, until: int) -> Any:
        """Yield the route of a topic at each instant of a window at which it may be another one; None: there is none."""
        seqs = self.changes[namesrv]
        for at in [since, *seqs[bisect_right(seqs, since) : bisect_right(seqs, until)]]:
            queues = {row["broker_name"]: row for row in self.queues[namesrv, topic] if is_there(row, at)}
            names = ("read_queue_nums", "write_queue_nums", "perm")
            told = {name: tuple(row[of] for of in names) for name, row in queues.items()}
            brokers: dict[str, dict[str, str]] = {}
            for name in queues:
                for row in self.members[namesrv, name]:
                    if is_there(row, at):
                        addrs = {str(row["broker_id"]): row["broker_addr"]} if row["broker_addr"] else {}
                        brokers.setdefault(name, {}).update(addrs)
            yield {"queues": told, "brokers": brokers} if told and brokers else None


def is_there(row: dict[str, Any], at: int) -> bool:
    return row["opened_at"]["seq"] <= at and (row["closed_at"] is None or row["closed_at"]["seq"] > at)


def verify_answers(warehouse: Path, files: dict[Key, Any]) -> None:
    histories = Histories(*(rows_of(warehouse, files, f"{name}_history") for name in ("topic_queue", "broker_addr")))
    counted, other = Counter[tuple[str, str, int]](), Counter[tuple[str, str, int]]()
    for row in rows_of(warehouse, files, "route_observations"):
        key = (row["day"], row["namesrv_id"], row["code"])
        counted[key] += 1
        if row["code"] == 105 and row["response_code"] in (0, 17):
            said = route_in(row["body"]) if row["response_code"] == 0 else None
            since = number(row["event_time"]) * 1000 + row["request_rest"]
            until = number(row["effect_time"]) * 1000 + row["seq_rest"]
            other[key] += said not in histories.routes(row["namesrv_id"], row["subject"], since, until)
    figures: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    names = ("answers", "mismatched", "unknown_past")
    # 5.x may show acting masters, or one zone only.
    settings = (row for row in rows_of(warehouse, files, "namesrv_settings") if row["setting"] == "version")
    versions = {row["namesrv_id"]: row["value"] or "" for row in settings}
    for check in rows_of(warehouse, files, "answer_checks"):
        key = (check["day"], check["namesrv_id"], check["code"])
        figures[key[:2]].update({name: check[name] for name in names})
        if counted.get(key, check["answers"]) != check["answers"]:
            wrong.append(f"{key}: {counted[key]} answers are recorded, {check['answers']} were checked")
        if versions[key[1]].startswith("4.") and other[key] > check["answers"] - check["matched"]:
            wrong.append(f"{key}: {other[key]} routes are not those of the histories")
    for (day, namesrv), of in sorted(figures.items()):
        answers, mismatched, unknown = (f"{of[name]:,}" for name in names)
        print(f"{day} {namesrv}: {answers} answers checked, {mismatched} wrong, {unknown} unknown")
    routes = sum(count for (_, _, code), count in counted.items() if code == 105)
    print(f"{routes:,} answers about routes looked up in the histories, {sum(other.values()):,} are other ones there")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("warehouse", type=Path)
    parser.add_argument("checkpoint", nargs="?", help="the line that a run printed, or a file with it")
    parser.add_argument("--capture", nargs="*", type=Path, default=[], help="captures that must be among those read")
    given = parser.parse_args()
    try:
        kept = given.checkpoint
        if kept is not None:
            kept = json.loads((kept if "{" in kept else Path(kept).read_text("utf-8")).removeprefix("Checkpoint"))
        files, last = verified_chain(given.warehouse, kept)
        verify_files(given.warehouse, files, last)
        if not wrong:
            verify_answers(given.warehouse, files)
            known = {row["content_sha256"] for row in rows_of(given.warehouse, files, "sources")}
            missing = [path for path in given.capture if hashlib.sha256(path.read_bytes()).hexdigest() not in known]
            wrong.extend(f"{path} is none of the {len(known)} files that were read" for path in missing)
    except (OSError, ValueError, KeyError, IndexError, pa.ArrowException) as error:
        print(f"verify: {type(error).__name__}: {error}", file=sys.stderr)
        return 8 if wrong else 2
    print(end="".join(f"WRONG: {sentence}\n" for sentence in wrong))
    return 8 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
