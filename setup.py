"""Builds the wheel: one package, `namesrv_history`, below which lie the packages of this repository, their imports named anew.

So site-packages gets one name that is ours, and nobody's `jobs` or `schemas` is in the way. Names in a source are changed where
Python's own parser finds them; what else stands in a line stays as it is.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

TOP = "namesrv_history"
ROOMS = ("namesrv_core", "namesrv_wire", "namesrv_day", "schemas", "jobs")
# Settings of sessions and runs, and what `demo` reads.
DATA = ("conf/*", "examples/v4-lifecycle/capture.pcap.gz")
_HERE = Path(__file__).resolve().parent
# Functions whose first argument names a package or a module.
_OF_MODULES = frozenset({"files", "get_data", "import_module"})


class Build(build_py):
    """Builds the packages that setuptools knows, and adds ours below them."""

    def run(self) -> None:
        """Copy, name anew, and translate the views' SQL once, which takes seconds where it is asked."""
        folder = Path(self.build_lib, TOP)
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier build, which pip leaves in a checkout
        super().run()
        for room in ROOMS:
            shutil.copytree(_HERE / room, folder / room, ignore=shutil.ignore_patterns("__pycache__", "translated*"))
        for path in (path for pattern in DATA for path in sorted(_HERE.glob(pattern))):
            target = folder / path.relative_to(_HERE)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        for path in folder.rglob("*.py"):
            path.write_text(named_anew(path.read_text(encoding="utf-8")), encoding="utf-8")
        code = f"from {TOP}.schemas import asked; asked.names()"
        command = [sys.executable, "-B", "-c", code]
        # Whatever path the one who builds has: what was built is asked, not a checkout, and not nothing (PYTHONSAFEPATH);
        # what it needs is found where pip has put it for this build, which it says by the same variable.
        built = str(Path(self.build_lib).resolve())
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([built, os.environ.get("PYTHONPATH", built)])}
        subprocess.run(command, cwd=self.build_lib, env=env, check=True)  # noqa: S603  ourselves


def named_anew(source: str) -> str:
    """Return a source in which our packages are imported, and named as modules, by their names below `namesrv_history`.

    Raises ValueError for an import that cannot be named anew: `import jobs.x` binds `jobs`.
    """
    lines = source.encode().splitlines(keepends=True)
    for node, name in sorted(_names(ast.parse(source)), key=lambda found: (found[0].lineno, found[0].col_offset))[::-1]:
        line, start = lines[node.lineno - 1], node.col_offset
        at = line.index(name.encode(), start)  # columns are of bytes
        lines[node.lineno - 1] = line[:at] + f"{TOP}.".encode() + line[at:]
    return b"".join(lines).decode()


def _names(tree: ast.AST) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """Yield each name of a module of ours, and where to look for it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and _is_ours(node.module or ""):
            yield node, node.module or ""
        elif isinstance(node, ast.Import):
            for found in node.names:
                if _is_ours(found.name):
                    raise ValueError(f"line {node.lineno}: import {found.name}: say `from ... import`")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            path = _HERE.joinpath(*node.value.split(".")) if "." in node.value and _is_ours(node.value) else None
            if path is not None and (path.is_dir() or path.with_suffix(".py").is_file()):
                yield node, node.value
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if called in _OF_MODULES and node.args[0].value in ROOMS:
                yield node.args[0], str(node.args[0].value)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in ROOMS


if __name__ == "__main__":
    setup(packages=[TOP], cmdclass={"build_py": Build})
