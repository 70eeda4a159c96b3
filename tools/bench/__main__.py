"""All figures that are promised, both sides in one run.

    ./spark-submit.sh bench [--scale small|full] [--only NAME ...] [--against CHECKOUT] [--captures FOLDER] [--rounds N]

Answers are compared before a time counts, and warm-up is left out. Writes a table to standard output, and with `--output
FOLDER` Markdown and JSON with the machine's description. Exit codes: 0 every bar is met or was not asked for; 1 one is not, or
answers differ; 2 usage. Bars are judged at full scale only: on small fleets start-up is all there is.
"""

from __future__ import annotations

import argparse
import datetime as dt
import functools
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from jobs.session import spark_session
from tools.bench.figures import FIGURES, Bench, versions_with
from tools.bench.harness import AnswersDifferError, Measured, Ratio, as_json, machine, markdown


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the figures and return the exit code."""
    given = _parser().parse_args(argv)
    rounds = given.rounds or (3 if given.scale == "full" else 1)
    folder = Path(given.data or tempfile.mkdtemp(prefix="namesrv-bench-")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    captures = given.captures.resolve() if given.captures else None  # jobs run in another folder
    spark = functools.cache(functools.partial(spark_session, "namesrv-history bench"))
    versions = versions_with(given.against.resolve() if given.against else None)
    bench = Bench(spark, folder, given.scale == "full", rounds, versions, captures)
    started, about = dt.datetime.now(dt.timezone.utc), {"scale": given.scale, "rounds": rounds, **machine()}
    results: list[Measured] = []
    differ = False
    try:
        for name in given.only:
            print(f"{name} ...", file=sys.stderr, flush=True)
            try:
                results += FIGURES[name](bench)
            except AnswersDifferError as error:
                print(f"namesrv-history: {name}: {error}", file=sys.stderr)
                differ = True
            if given.output:  # after each: the whole takes long
                _write(Path(given.output), f"{started:%Y-%m-%d}-{given.scale}", results, about)
    finally:
        if spark.cache_info().currsize:
            spark().stop()
        if not given.data:
            shutil.rmtree(folder, ignore_errors=True)
    print(markdown(results, about))
    missed = [result for result in results if isinstance(result, Ratio) and not result.is_met]
    return 1 if differ or (missed and given.scale == "full") else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spark-submit.sh bench", description="Whole commands beside other ways and versions."
    )
    parser.add_argument(
        "--scale", choices=("small", "full"), default="small", help="size of the fleets (default: small)"
    )
    parser.add_argument(
        "--only", nargs="+", choices=FIGURES, default=list(FIGURES), metavar="NAME", help=", ".join(FIGURES)
    )
    parser.add_argument("--rounds", type=int, help="timed rounds (default: 1 at small scale, 3 at full)")
    parser.add_argument(
        "--against", type=Path, metavar="CHECKOUT", help="another version, to be measured by turns with this one"
    )
    parser.add_argument("--captures", type=Path, metavar="FOLDER", help="recordings of real clusters")
    parser.add_argument("--data", metavar="FOLDER", help="keep the fleets here (default: a temporary folder)")
    parser.add_argument("--output", metavar="FOLDER", help="write the results here, as Markdown and JSON")
    return parser


def _write(folder: Path, name: str, results: Sequence[Measured], about: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(markdown(results, about), encoding="utf-8")
    (folder / f"{name}.json").write_text(as_json(results, about), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
