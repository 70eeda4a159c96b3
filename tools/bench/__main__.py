"""All figures of the night, both sides in one run.

    ./spark-submit.sh bench [--scale small|full] [--only NAME ...] [--rounds N]

Answers are compared before a time counts; warm-up is left out, and start-up reported apart. Writes a table to standard output,
and with `--output FOLDER` Markdown and JSON with the machine's description. Exit codes: 0 every bar is met or was not asked
for; 1 one is not, or answers differ; 2 usage. Bars are judged at full scale only: on small fleets start-up is all there is.
"""

from __future__ import annotations

import argparse
import datetime as dt
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from jobs.night.passes import OnSpark
from jobs.session import spark_session
from tools.bench.figures import FIGURES
from tools.bench.fleets import Fleets
from tools.bench.harness import AnswersDifferError, Measured, Ratio, as_json, machine, markdown


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the figures and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="spark-submit.sh bench", description="The night beside other ways to its answers."
    )
    parser.add_argument(
        "--scale", choices=("small", "full"), default="small", help="size of the fleets (default: small)"
    )
    parser.add_argument(
        "--only", nargs="+", choices=FIGURES, default=list(FIGURES), metavar="NAME", help=", ".join(FIGURES)
    )
    parser.add_argument("--rounds", type=int, help="timed rounds (default: 1 at small scale, 3 at full)")
    parser.add_argument(
        "--capture", type=Path, metavar="FILE", help="a network capture, to be taken in as a whole night"
    )
    parser.add_argument("--data", metavar="FOLDER", help="keep the fleets here (default: a temporary folder)")
    parser.add_argument("--output", metavar="FOLDER", help="write the results here, as Markdown and JSON")
    arguments = parser.parse_args(argv)
    rounds = arguments.rounds or (3 if arguments.scale == "full" else 1)
    folder = Path(arguments.data or tempfile.mkdtemp(prefix="namesrv-bench-")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    capture = arguments.capture.resolve() if arguments.capture else None  # jobs run in another folder
    started, began = dt.datetime.now(dt.timezone.utc), time.perf_counter()
    spark = spark_session("namesrv-history bench")
    start_up = round(time.perf_counter() - began, 1)
    about = {"scale": arguments.scale, "rounds": rounds, "start_up_s": start_up, **machine()}
    results: list[Measured] = []
    differ = False
    try:
        fleets = Fleets(spark, OnSpark(lambda: spark), folder, arguments.scale, capture)
        for name in arguments.only:
            print(f"{name} ...", file=sys.stderr, flush=True)
            try:
                results += FIGURES[name](fleets, rounds)
            except AnswersDifferError as error:
                print(f"namesrv-history: {name}: {error}", file=sys.stderr)
                differ = True
            if arguments.output:  # after each: the whole takes hours
                _write(Path(arguments.output), f"{started:%Y-%m-%d}-{arguments.scale}", results, about)
    finally:
        spark.stop()
        if not arguments.data:
            shutil.rmtree(folder, ignore_errors=True)
    print(markdown(results, about))
    missed = [result for result in results if isinstance(result, Ratio) and not result.is_met]
    return 1 if differ or (missed and arguments.scale == "full") else 0


def _write(folder: Path, name: str, results: Sequence[Measured], about: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(markdown(results, about), encoding="utf-8")
    (folder / f"{name}.json").write_text(as_json(results, about), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
