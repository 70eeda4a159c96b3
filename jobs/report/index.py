"""What a warehouse shows, from one page: reports, Data Docs, saved queries. Pure; who calls it writes the files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from html import escape

from jobs.report.markup import code, page, text, time
from schemas.queries import Query

INDEX, CATALOGUE, REPORTS = "index.html", "queries.html", "reports"
"""Names below a warehouse: the two pages, and the folder of reports by day."""


def index(run_id: str, finished: dt.datetime, reports: Sequence[str], docs: str | None) -> str:
    """Return the page. `reports`: names of files in `REPORTS`, newest first; `docs`: where the Data Docs lie; both relative."""
    days = "".join(
        f'<li><a href="{REPORTS}/{escape(name)}">{escape(name.removesuffix(".html"))}</a></li>' for name in reports
    )
    data_docs = (
        f'<li><a href="{escape(docs)}">Data Docs</a>: every data-quality rule, with its results in the last runs</li>'
        if docs
        else ""
    )
    proof = f"<li>Proof of an instant: {code('audit --at TIME --namesrv ADDR')}</li>"
    return page(
        "Name servers",
        f'<header><h1>Name servers</h1><p class="soft">Last published: run {code(run_id)}, {time(finished).html} UTC</p></header>'
        f'<main id="content"><h2>What happened</h2><ul>{days or "<li>No report yet</li>"}</ul><h2>What can be asked</h2><ul>'
        f'<li><a href="{CATALOGUE}">Saved queries</a>: {code("ask query NAME")}</li></ul>'
        f"<h2>Data quality</h2><ul>{data_docs}{proof}</ul></main>",
    )


def catalogue(queries: Iterable[Query]) -> str:
    """Return the page of the saved queries, by group, each with its parameters, columns and statement."""
    body, group = "", ""
    for query in queries:
        if query.group != group:
            group = query.group
            body += f"<h2>{text(group)}</h2>"
        body += _query(query)
    back = f'<nav aria-label="Pages"><ul><li><a href="{INDEX}">All pages</a></li></ul></nav>'
    return page("Saved queries", f'<header><h1>Saved queries</h1>{back}</header><main id="content">{body}</main>')


def _query(query: Query) -> str:
    asked = " ".join(
        f"--param {one.name}={one.name.upper()}" if one.default is None else f"[--param {one.name}=...]"
        for one in query.parameters
    )
    listed = "".join(f"<li>{code(one.name)} {escape(one.type)}: {text(one.described)}</li>" for one in query.parameters)
    columns = "".join(f"<li>{code(name)}: {text(comment)}</li>" for name, comment in query.columns.items())
    unknown = f'<p class="soft">Not known: {text(query.unknown)}</p>' if query.unknown else ""
    command = code(f"ask query {query.name} {asked}".strip())
    return (
        f"<details><summary><b>{text(query.question)}</b></summary><p>{command}</p>{unknown}"
        f"{f'<p>Parameters:</p><ul>{listed}</ul>' if listed else ''}<p>Columns:</p><ul>{columns}</ul>"
        f"<pre><code>{escape(query.sql)}</code></pre></details>"
    )
