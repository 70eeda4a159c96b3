"""Coverage-guided fuzzing of what reads hostile bytes: `python -m tests.wire.fuzz [--inputs N] [--target NAME]`.

Every target decodes arbitrary bytes; only `WireError` may leave. libFuzzer ends the run at any other exception, at an
input that takes longer than the time limit, and when the process outgrows the memory limit; the input is kept.
Exit code 0: nothing found. 1: a finding, its input is named. 2: usage, or atheris is not available here.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.places import CHECKOUT
from tests.wire.fuzz.targets import TARGETS

SECONDS_AN_INPUT = 10
MEMORY_MB = 1_024
# Inputs that are read as files: a disk takes longer to make a hundred thousand of them than they take to be read.
MEMORY = "/dev/shm"


def main(arguments: list[str]) -> int:
    """Fuzz the targets, one on each core, each in a process of its own: libFuzzer never gives one back."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs over all targets (default: 1,000,000)")
    parser.add_argument("--target", choices=sorted(TARGETS), action="append", help="only this one; may be repeated")
    parser.add_argument("--seed", type=int, default=1, help="seed of the mutations (default: 1)")
    parser.add_argument(
        "--findings", type=Path, default=Path(), help="folder for inputs that fail (default: the checkout)"
    )
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("atheris") is None:
        print(
            "fuzz: atheris is not installed; it exists for Linux on x86_64 with Python 3.11 or newer", file=sys.stderr
        )
        return 2
    chosen = options.target or list(TARGETS)
    shares = sum(TARGETS[name].share for name in chosen)
    findings = options.findings.resolve()
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        passed = pool.map(
            lambda name: fuzz(name, options.inputs * TARGETS[name].share // shares, options.seed, findings), chosen
        )
        return 0 if all(list(passed)) else 1


def fuzz(name: str, inputs: int, seed: int, findings: Path) -> bool:
    """Run one target in a child and print one line about it; False if it found something."""
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        for number, data in enumerate(TARGETS[name].seeds()):
            (corpus / f"seed{number:04d}").write_bytes(data)
        command = [
            *(sys.executable, "-m", "tests.wire.fuzz.child", name, str(corpus), f"-runs={inputs}", f"-seed={seed}"),
            *(f"-timeout={SECONDS_AN_INPUT}", f"-rss_limit_mb={MEMORY_MB}", f"-max_len={TARGETS[name].longest}"),
            *(f"-artifact_prefix={findings / name}-", "-print_final_stats=1"),
        ]
        began = time.monotonic()
        env = {**os.environ, "TMPDIR": folder}  # libFuzzer ends its process before targets could remove their files
        done = subprocess.run(
            command, cwd=CHECKOUT, env=env, capture_output=True, text=True, errors="replace", check=False
        )
        seconds = time.monotonic() - began
    if done.returncode:
        print(done.stdout[-2_000:], done.stderr[-6_000:], sep="\n")
        print(f"{name}: FAILED with exit code {done.returncode}")
        return False
    print(f"{name}: {inputs:,} inputs in {seconds:.1f} s, {inputs / seconds:,.0f} a second", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
