"""What is installed with this software: `./spark-submit.sh dependencies [--advisories FILE ...]`.

A line each: name, version, licence as its metadata says it, and who asks for it: `users`, or only `developers`. Advisories: JSON as
`pip-audit` writes it, or of OSV: one record or a list of them, or a folder of such files. Nothing is fetched.
Exit codes: 0; 1 a licence of what users install that is not among those allowed, or an advisory that applies; 2 usage.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from jobs.start.pack import PYPROJECT, closure

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OURS = "namesrv-history"
ALLOWED = re.compile(
    r"(Apache|BSD|MIT|ISC|Zlib|0BSD|CC0|PSF|Python Software Foundation|MPL-2|Mozilla Public License 2|Unlicense|HPND)\b.*"
)
"""Beginnings of allowed licences: those that demand only their text and notices; for MPL-2.0, its own files stay under it."""


class Package(NamedTuple):
    """A package that is installed."""

    name: str
    version: str
    licence: str
    is_for_users: bool

    @property
    def is_allowed(self) -> bool:
        """Return whether its licence is allowed: of `AND` each, of `OR` one."""
        parts = re.split(r"\s+AND\s+|\|", self.licence.replace("(", " ").replace(")", " "))
        return all(any(ALLOWED.match(one.strip()) for one in re.split(r"\s+OR\s+", part)) for part in parts)


def packages() -> list[Package]:
    """Return all packages installed with this software, by name."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(one for name in extras if name != "dev" for one in extras[name])]
    users = {canonicalize_name(of.metadata["Name"]) for of in closure(asked)}
    found = {canonicalize_name(of.metadata["Name"]): of for of in metadata.distributions()}
    found.pop(canonicalize_name(OURS), None)
    return [Package(name, of.version, _licence(of.metadata), name in users) for name, of in sorted(found.items())]


def _licence(said: Any) -> str:
    classifiers = [
        one.rpartition(" :: ")[2] for one in said.get_all("Classifier") or () if one.startswith("License ::")
    ]
    text = str(said.get("License-Expression") or "|".join(classifiers) or said.get("License") or "")
    return (text.strip().splitlines() or ["not said"])[0][:80]


# -- advisories --------------------------------------------------------------------------------------------------------


def applying(advisories: Iterable[Any], installed: Sequence[Package]) -> list[str]:
    """Return a sentence for each advisory about an installed version of a package."""
    versions = {of.name: of.version for of in installed}
    found = list[str]()
    for record in advisories:
        for of in record.get("dependencies", ()):  # pip-audit
            if versions.get(name := canonicalize_name(of["name"])) == of.get("version"):
                found += [_sentence(name, of["version"], one["id"], one.get("fix_versions")) for one in of["vulns"]]
        for affected in record.get("affected", ()) if "withdrawn" not in record else ():  # OSV
            package = affected.get("package", {})
            name = canonicalize_name(str(package.get("name", "")))
            if package.get("ecosystem") == "PyPI" and name in versions and _is_affected(versions[name], affected):
                events = [event for one in affected.get("ranges", ()) for event in one.get("events", ())]
                fixed = [event["fixed"] for event in events if "fixed" in event]
                found.append(_sentence(name, versions[name], record["id"], fixed))
    return found


def _sentence(name: str, version: str, advisory: str, fixed: Sequence[str] | None) -> str:
    return f"{name} {version}: {advisory}, fixed in {', '.join(fixed) if fixed else 'no version yet'}"


def _is_affected(version: str, affected: Any) -> bool:
    if version in affected.get("versions", ()):
        return True
    return any(
        _is_within(version, one.get("events", ()))
        for one in affected.get("ranges", ())
        if one.get("type") == "ECOSYSTEM"
    )


def _is_within(version: str, events: Sequence[Any]) -> bool:
    """Return whether a version lies in an OSV range, whose events are in order of version."""
    is_in, now = False, Version(version)
    for event in events:
        (kind, at), *_ = event.items()
        try:
            limit = Version(at)
        except InvalidVersion:  # an unreadable version is reported, never left out
            continue
        if kind == "introduced" and now >= limit:
            is_in = True
        elif (kind == "fixed" and now >= limit) or (kind == "last_affected" and now > limit):
            is_in = False
    return is_in


def read_advisories(path: Path) -> Iterator[Any]:
    """Yield the records of a file, or of a folder's files. Raises OSError; ValueError for a malformed file."""
    for file in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
        said = json.loads(file.read_text(encoding="utf-8"))
        for record in said if isinstance(said, list) else [said]:
            if not isinstance(record, dict) or not {"dependencies", "affected"} & record.keys():
                raise ValueError(f"{file}: neither a report of pip-audit nor a record of OSV")
            yield record


def main(arguments: Sequence[str]) -> int:
    """List the installed packages and their problems; return the exit code."""
    parser = argparse.ArgumentParser("dependencies", None, __doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--advisories", nargs="+", type=Path, default=[], metavar="FILE")
    given, installed = parser.parse_args(arguments), packages()
    try:
        told = applying([record for path in given.advisories for record in read_advisories(path)], installed)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        parser.error(f"advisories: {error}")
    for one in installed:
        print(f"{one.name:<28} {one.version:<14} {'users' if one.is_for_users else 'developers':<11} {one.licence}")
    wrong = [f"{one.name}: {one.licence}" for one in installed if one.is_for_users and not one.is_allowed]
    count = sum(one.is_for_users for one in installed)
    print(f"{len(installed)} packages, {count} of them for users; licences not allowed: {', '.join(wrong) or 'none'}")
    print(f"advisories that apply: {'; '.join(told) or 'none'}" if given.advisories else "no advisories were given")
    return 1 if wrong or told else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
