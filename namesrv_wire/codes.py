"""Request codes that name servers know, where each goes, and the names of protocol versions.

Source: 4.9.7 and 5.4.0 `RequestCode`, `DefaultRequestProcessor`, `ClientRequestProcessor`;
`MQVersion.Version`.
"""

from __future__ import annotations

from typing import Final

from namesrv_core.asking.answers import QUESTIONS
from namesrv_core.machine.codes import RequestCode

REQUEST_NAMES: Final[dict[int, str]] = {
    **{int(code): code.name.lower() for code in RequestCode},
    905: "notify_min_broker_id_change",
}
"""Every code that a 4.9.7 or 5.4.0 name server answers, and 905, which a 5.x name server sends itself."""

EVENT_TABLES: Final[dict[int, str]] = {
    322: "heartbeats",
    904: "heartbeats",
    103: "registrations",
    104: "unregistrations",
    100: "admin_events",
    102: "admin_events",
    205: "admin_events",
    216: "admin_events",
    217: "admin_events",
    318: "admin_events",
    327: "admin_events",
}
"""Request codes that become events, with their bronze table."""

OBSERVED: Final[frozenset[int]] = frozenset({*map(int, QUESTIONS), int(RequestCode.GET_NAMESRV_CONFIG)})
"""Request codes whose answers become rows of `route_observations`."""

CONFIRMING: Final[frozenset[int]] = frozenset(set(REQUEST_NAMES) - {904, 905})
"""Codes whose answer shows a name server. Not 904: a controller answers it too; 905 is the server's own."""

REQUEST_CODE_NOT_SUPPORTED: Final = 3


def _versions() -> tuple[str, ...]:
    names = ["3.0.0-SNAPSHOT", "3.0.0-ALPHA1", *(f"3.0.0-BETA{n}" for n in range(1, 6))]
    for n in range(6, 10):
        names += [f"3.0.0-BETA{n}-SNAPSHOT", f"3.0.0-BETA{n}"]
    names.append("3.0.0-FINAL")
    releases = [(3, 0, patch) for patch in range(1, 16)]
    releases += [(3, minor, patch) for minor in range(1, 10) for patch in range(0 if minor < 3 else 1, 10)]
    releases += [(major, minor, patch) for major in (4, 5) for minor in range(10) for patch in range(10)]
    for major, minor, patch in releases:
        names += [f"{major}.{minor}.{patch}-SNAPSHOT", f"{major}.{minor}.{patch}"]
    return (*names, "HIGHER_VERSION")


VERSION_NAMES: Final[tuple[str, ...]] = _versions()
V3_0_11: Final = VERSION_NAMES.index("3.0.11")
V5_0_0: Final = VERSION_NAMES.index("5.0.0")


def request_name(code: int) -> str:
    """Return the lower-case name of a request code, `request_<code>` if name servers do not know it."""
    return REQUEST_NAMES.get(code, f"request_{code}")


def version_name(ordinal: int) -> str:
    """Return the version that a header's `version` means, '4.9.7' for 407.

    Numbers above the last one are HIGHER_VERSION as in `MQVersion.value2Version`; a negative one has no name
    there (Java throws) and gives 'unknown'.
    """
    if ordinal < 0:
        return "unknown"
    return VERSION_NAMES[min(ordinal, len(VERSION_NAMES) - 1)]
