"""Verify that rows were published: `check --prove ... | python verify_proof.py CHECKPOINT`. Needs nothing but Python.

CHECKPOINT is the line that was kept, or its `sha256`. Each line of the input is a proof (docs/auditors.md): what is shown follows
from it and from SHA-256 alone. Exit codes: 0 all proven, 8 not.
"""

from __future__ import annotations

import base64
import json
import sys
from hashlib import sha256


def root(leaf: str, index: int, count: int, nodes: str) -> str:
    """Return the root of the tree in which a leaf of this text is number `index` of `count`."""
    node, beside = sha256(b"\0" + leaf.encode()).digest(), base64.b64decode(nodes)
    while count > 1:
        if index ^ 1 < count:
            other, beside = beside[:32], beside[32:]
            node = sha256(b"\1" + (other + node if index & 1 else node + other)).digest()
        index, count = index // 2, (count + 1) // 2
    return node.hex()


def proven(line: str, checkpoint: str) -> bool:
    """Return whether a proof leads to the hash of a checkpoint; `line`: JSON."""
    row, index, count, nodes, entry, file, files, others, previous, run = json.loads(line)
    is_in_file = root(row, index, count, nodes) in [piece["root"] for piece in json.loads(entry)["pieces"]]
    said = f"{previous} {root(entry, file, files, others)} {run}"
    return is_in_file and sha256(said.encode()).hexdigest() == checkpoint


if __name__ == "__main__":
    kept = sys.argv[1] if "{" not in sys.argv[1] else json.loads(sys.argv[1][sys.argv[1].index("{") :])["sha256"]
    lines = [line for line in sys.stdin if line.startswith("[")]
    for line in lines:
        print(
            "proven:" if proven(line, kept) else "NOT PROVEN:",
            json.loads(json.loads(line)[4])["table"],
            json.loads(line)[0],
        )
    sys.exit(0 if lines and all(proven(line, kept) for line in lines) else 8)
