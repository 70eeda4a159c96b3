"""The process of one fuzz target: `python -m tests.wire.fuzz.child NAME CORPUS [libFuzzer options]`."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["namesrv_wire"]):
    import namesrv_wire  # noqa: F401  instrumented before the targets import it
    from tests.wire.fuzz.targets import TARGETS


def main() -> None:
    """Hand the process over to libFuzzer."""
    name, *options = sys.argv[1:]
    atheris.Setup([sys.argv[0], *options], TARGETS[name].run)
    atheris.Fuzz()


main()
