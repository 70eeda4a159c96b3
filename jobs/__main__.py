"""Command line of the jobs; `--help` lists the exit codes. At every exit code, earlier published runs stay as they were."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:
    # Run as a script, Python searches this folder first, where the names of modules may hide packages.
    _here = Path(__file__).resolve().parent
    sys.path[:] = [str(_here.parent), *(p for p in sys.path if Path(p).resolve() != _here)]

from jobs.cli.arguments import parser
from jobs.cli.output import Guarded
from jobs.errors import known_failure
from jobs.processes import end, end_if_interrupted, rarely_collected


def main(argv: Sequence[str] | None = None) -> int:
    """Run one job and return its exit code; a known failure becomes one line on standard error."""
    given = sys.argv[1:] if argv is None else argv
    top = parser(given)
    arguments = top.parse_args(given)
    if arguments.job == "nightly" and not (arguments.input or arguments.first or arguments.last):
        top.error("nightly: give --input, or days to recompute with --from and --to")
    empty = {name for name, value in vars(arguments).items() if value in ("", [""])} - {"topic", "broker"}
    if empty:  # those two are names, which may be
        top.error(f"{' and '.join(sorted(empty))}: empty; is a variable of your shell not set?")
    if "://" in str(vars(arguments).get("output")):
        top.error(f"output {arguments.output}: a file or folder of this machine expected")
    try:
        return _run(arguments)
    except Exception as error:
        known = known_failure(error, getattr(arguments, "warehouse", getattr(arguments, "output", None)))
        if known is None:
            raise
        sys.stderr.write(f"namesrv-history: {known[0]}\n")
        return known[1]


def _run(arguments: argparse.Namespace) -> int:
    if arguments.job == "pack":
        from jobs.start.pack import run_pack  # noqa: PLC0415  as above

        return run_pack(Path(arguments.output), sys.stdout)
    if arguments.job == "record":
        if arguments.listen is not None:
            from jobs.record.sockets import record  # noqa: PLC0415  as above
        else:
            from jobs.record.poll import record  # noqa: PLC0415  as above
        return record(arguments)
    if arguments.job == "mcp":
        from jobs.cli.mcp import serve  # noqa: PLC0415  as above

        return serve(arguments)
    if arguments.job == "reference":
        from schemas.reference import text  # noqa: PLC0415  as above

        sys.stdout.write(text())
        return 0
    if arguments.job in ("ask", "report"):
        from jobs.cli.ask import ask as job  # noqa: PLC0415  as above

        if arguments.job == "report":
            from jobs.cli.pages import report as job  # noqa: PLC0415  as above
        return job(arguments)
    from jobs.cli.validate import validate  # noqa: PLC0415  as above

    validate(arguments)
    session = None
    if arguments.job in ("demo", "nightly") and not getattr(arguments, "in_process", False):
        from jobs.session import SessionLater  # noqa: PLC0415  a JVM starts while the rest is imported

        session = SessionLater(f"namesrv-history {arguments.job}")
    from jobs.cli.commands import run_command  # noqa: PLC0415  --help must not wait for Spark

    return run_command(arguments, session)


def guarded(argv: Sequence[str] | None = None) -> int:
    """Run one job as a process: no output, not even a stack trace, can send control sequences to a terminal."""
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # not every encoding has all
    sys.stdout, sys.stderr = Guarded(sys.stdout), Guarded(sys.stderr)
    end_if_interrupted()
    try:
        with rarely_collected():
            code = main(argv)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    return code


if __name__ == "__main__":
    end(guarded())
