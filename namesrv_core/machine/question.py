"""What a name server is asked, and what it says."""

from __future__ import annotations

from typing import NamedTuple


class Question(NamedTuple):
    """What was asked: the request code, whom or what about, and whether the asker takes standard JSON only.

    `subject`: topic (105), cluster (224), key (101), namespace (219) or broker name (901). `scope`: zone to which the
    asker restricts a route (105, 5.x), namespace of the key (101), cluster beside the broker name (901).
    """

    code: int
    subject: str | None = None
    standard_json: bool = True
    scope: str | None = None


class Answer(NamedTuple):
    """Response code, body text, remark and header fields.

    An expected remark ends where the real one depends on the build or the JVM: `remark_matches` compares.
    """

    code: int
    body: str | None
    remark: str | None = None
    fields: tuple[tuple[str, str], ...] = ()
