"""What permanent views say of their columns."""

from __future__ import annotations

from jobs.cli.sql import comment_of
from schemas.views import stored_tables


def test_comments_are_no_longer_than_a_metastore_takes() -> None:
    """Of all columns of stored tables: what is short stays, what is long is cut off, quotes are escaped."""
    said = {column.comment for table in stored_tables().values() for column in table.columns}
    long = {text for text in said if len(text) > 256}
    assert long
    for text in said:
        shown = comment_of(text)[1:-1].replace("\\'", "'")
        if text in long:
            assert len(shown) <= 256
            assert shown.endswith(" ...")
            assert text.startswith(shown.removesuffix(" ..."))
        else:
            assert shown == text
    assert comment_of("it's a \\") == "'it\\'s a \\\\'"
