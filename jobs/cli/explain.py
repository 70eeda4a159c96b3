"""A topic's route at an instant, the event that made it so, and the recorded bytes of that event, in one answer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from jobs.ask.engine import Answers
from jobs.cli.output import waiting, width_of, write_lines, write_rows
from jobs.errors import UsageError
from jobs.printable import printable
from jobs.store.coverage import text_of
from jobs.store.published import sha256_of_file

EXPLAINED = """
    SELECT DISTINCT w.*, s.content_sha256, s.kind AS source_kind
    FROM why($topic, $t) AS w
    LEFT JOIN sources AS s ON s.source_file = w.source_file AND s.ingest_run = w.ingest_run
    ORDER BY w.namesrv_id"""
"""What is known of a topic `$topic` at `$t` on each name server, and where the event behind it is recorded."""
_ROUTE = "SELECT * FROM route_at($topic, $t) ORDER BY namesrv_id, broker_name"
# Behind the word that says what a line tells; what stands around the bytes of a line, each of which takes four columns.
_INDENT, _AROUND, _A_LINE = 12, 9, 16


def explain(
    answers: Answers, values: dict[str, Any], files: Sequence[Path], form: str, out: TextIO, *, with_route: bool = True
) -> list[tuple[Any, ...]]:
    """Write the explanation: for people in parts, otherwise a row for each name server; return the rows. Raises UsageError.

    `files`: recordings at hand. Only one with the digest that the ledger knows is shown; secrets in it are blotted out.
    """
    with waiting("ask", lambda: answers.share):
        found = answers.ask(EXPLAINED, **values)
        told = list(found.rows)
        rows = [dict(zip(found.names, row, strict=True)) for row in told]
    try:
        digests = {sha256_of_file(str(path)): path for path in files}
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be read: {error.strerror or error}") from error
    for one in rows:
        path = digests.get(one["content_sha256"])
        one["recorded"] = None if path is None else _recorded(path, one["source_kind"], one["source_offset"]).hex()
    if form != "table":
        write_rows(out, form, [*found.names, "recorded"], [list(one.values()) for one in rows])
        return told
    if with_route:
        write_rows(out, "table", *answers.ask(_ROUTE, **values))
        out.write("\n")
    width = width_of(out)
    a_line = _A_LINE if width is None else max(1, min(_A_LINE, (width - _AROUND) // 4))
    for number, one in enumerate(rows):
        write_lines(out, [*[""] * bool(number), *_lines(one, a_line)], _INDENT)
    return told


def _lines(one: dict[str, Any], a_line: int) -> Iterator[str]:
    yield f"{one['namesrv_id']}: {one['state']}"
    if one["caused_by"] is None:
        return
    who = " ".join(str(one[name]) for name in ("cluster_name", "broker_name", "broker_addr") if one[name] is not None)
    yield f"  {one['change']} at {text_of(one['changed_time'])} by {one['operation']} ({one['outcome']})"
    yield f"  who       {printable(who) or 'nobody is named'}, connection {one['channel_id']}"
    yield f"  event     {one['caused_by']}"
    if one["source_file"] is None:
        yield "  recorded  nowhere: a scan is no packet"
        return
    unit = "packet" if one["source_kind"] == "capture" else "line"
    yield f"  recorded  {printable(one['source_file'])}, {unit} {one['source_offset']}, SHA-256 {one['content_sha256']}"
    if one["recorded"] is None:
        yield "            not at hand: give it with --capture to see the bytes"
        return
    data = bytes.fromhex(one["recorded"])
    for at in range(0, len(data), a_line):
        part = data[at : at + a_line]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        yield f"  {at:04x}  {part.hex(' '):<{3 * a_line - 1}}  {text}"


def _recorded(path: Path, kind: str, offset: int) -> bytes:
    """Return the packet, or the line, with that number."""
    # Who has no recording at hand does not wait for their readers.
    from namesrv_wire.compression import unpacked  # noqa: PLC0415
    from namesrv_wire.errors import CaptureError  # noqa: PLC0415
    from namesrv_wire.packets.container import packet_of  # noqa: PLC0415
    from namesrv_wire.secrets import blot  # noqa: PLC0415

    try:
        if kind == "capture":
            found = packet_of(path, offset)
        else:
            with path.open("rb") as file:
                found = next(itertools.islice(unpacked(file), offset - 1, offset), None)
    except (CaptureError, OSError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    if found is None:
        raise UsageError(f"{path}: has no number {offset}")
    return blot(found)
