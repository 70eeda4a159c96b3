"""Incidents and how far is known, as a Prometheus text file (for the node exporter's textfile collector)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from jobs.ask.engine import Answers

# Every code has a line also where there is nothing: an alert on it ends by itself.
_ONGOING = """
    SELECT c.code, s.severity, count(i.incident_id)
    FROM finding_codes AS c
    CROSS JOIN (SELECT unnest(['critical', 'warning', 'info']) AS severity) AS s
    LEFT JOIN incidents AS i ON list_contains(i.codes, c.code) AND i.severity = s.severity AND i.state = 'ongoing'
    GROUP BY ALL ORDER BY ALL"""
_TOLD = "SELECT severity, count(*) FROM incidents GROUP BY ALL ORDER BY ALL"
_KNOWN = "SELECT namesrv_id, latest_time FROM watermarks ORDER BY namesrv_id"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def metrics(answers: Answers) -> Iterator[str]:
    """Yield the lines of the file: ongoing incidents, all incidents, the last publication, the watermark of each name server."""
    yield from _family(
        "incidents_ongoing",
        "Incidents that were not over when the last recorded day ended.",
        (({"code": code, "severity": severity}, count) for code, severity, count in answers.ask(_ONGOING).rows),
    )
    yield from _family(
        "incidents",
        "All incidents that are published, by severity.",
        (({"severity": severity}, count) for severity, count in answers.ask(_TOLD).rows),
    )
    yield from _family(
        "published_timestamp_seconds",
        "When the run was published that is read.",
        [({}, answers.known.finished_time.timestamp())],
    )
    yield from _family(
        "known_timestamp_seconds",
        "Latest instant that is recorded of a name server.",
        (({"namesrv": name}, at.timestamp()) for name, at in answers.ask(_KNOWN).rows),
    )


def _family(name: str, text: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> Iterator[str]:
    full = f"namesrv_history_{name}"
    yield f"# HELP {full} {text}\n"
    yield f"# TYPE {full} gauge\n"
    for labels, value in samples:
        told = ",".join(f'{label}="{of.translate(_ESCAPES)}"' for label, of in labels.items())
        yield f"{full}{{{told}}} {value}\n" if told else f"{full} {value}\n"
