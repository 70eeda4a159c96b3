"""Keys that are there twice, found among numbers that files leave behind."""

from __future__ import annotations

import hashlib

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from namesrv_day.arrow.rows import with_derived
from namesrv_day.arrow.sql import connection
from namesrv_day.gate import keys
from namesrv_wire.rows import timed_id
from schemas.bronze import HEARTBEATS
from schemas.table import TIMESTAMP


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def ids(*found: str | None) -> keys.Ids:
    return keys.ids_of(relation(found), "registrations")


def relation(found):
    return connection().from_arrow(pa.table({"event_id": pa.array(found, pa.string())}))


def copies(*files, parts: int = 1) -> tuple[int, int]:
    """Return how many ids there are in files with these ids, and how many prints are there more than once."""
    left = [keys.parts_of_ids("registrations", ids(*file), parts) for file in files]
    found = keys.copies_in(pa.concat_tables(left))
    return sum(part.keys for part in found), sum(len(part.repeated) for part in found)


@pytest.mark.parametrize("parts", [1, 2, 1000])
@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([[], []], (0, 0)),
        ([["a", "b"], ["c"]], (3, 0)),
        ([["a", "b"], ["c", "a"]], (4, 1)),
        ([["a", "a", "b"], ["b", "a"], ["a"]], (6, 2)),
    ],
    ids=["none", "all different", "in two files", "often"],
)
def test_copies_are_found_in_whatever_files_they_are(files, expected, parts):
    """An id counts as repeated once, however often and in however many files it is; parts make no difference."""
    assert copies(*([digest(name) for name in file] for file in files), parts=parts) == expected


def test_of_many_ids_every_copy_is_found():
    """Of 100,000 ids in four files, every thousandth of which is there twice, exactly the copies are found."""
    numbers = [digest(str(number)) for number in range(100_000)]

    found = copies(*(numbers[start::3] for start in range(3)), numbers[::1_000], parts=40)

    assert found == (100_100, 100)


@pytest.mark.parametrize(
    ("strange", "are_digests"),
    [
        (digest("x"), True),
        (digest("x").upper(), False),
        (digest("x")[:31], False),
        (digest("x") + "0", False),
        (digest("x")[:31] + "\n", False),
        (digest("x")[:30] + "é", False),
        (digest("x")[:31] + "/", False),
        (digest("x")[:31] + ":", False),
        (digest("x")[:31] + "`", False),
        (digest("x")[:31] + "g", False),
        ("", False),
    ],
)
def test_the_form_of_ids_is_seen_while_they_are_read(strange, are_digests):
    """32 lower-case hex digits are a digest, and nothing else is; ids of any form are compared all the same."""
    found = ids(digest("a"), strange, strange)

    assert found.are_digests == are_digests
    assert len(found.prints) == 3
    assert len(set(found.prints.tolist())) == 2


def test_ids_that_are_missing_leave_nothing():
    """NULL is no id: it is not printed, and no copy of another."""
    assert len(ids(None, digest("a"), None).prints) == 1
    assert len(ids(None).prints) == 0


def test_ids_with_equal_prints_are_looked_at_again():
    """Prints that happen to be equal, as somebody may arrange, are no copies of ids; copies among them are told by their ids."""
    first, second = digest("a"), digest("b")
    shared = keys.Copies("heartbeats", 4, ids(first).prints)
    asked = []

    def again(*ids_found: str):
        def find(table: str, prints: np.ndarray) -> list[str]:
            asked.append((table, prints.tolist()))
            return list(ids_found)

        return find

    (_, harmless) = keys.judged([], [shared], again(first, second))
    (_, broken) = keys.judged([], [shared], again(first, second, first))

    assert (harmless.rows, harmless.broken, harmless.sample) == (4, 0, ())
    assert (broken.rows, broken.broken) == (3, 1)
    assert broken.sample == (f'{{"event_id":"{first}","copies":2}}',)
    assert asked == [("heartbeats", ids(first).prints.tolist())] * 2


def test_the_ids_of_prints_are_found_again():
    """Of a file all ids are given that have one of the prints, as often as they are there."""
    rows = relation([digest("a"), "odd", digest("b"), None, "odd"])
    assert keys.ids_with(rows, "registrations", ids("odd", digest("b")).prints) == ["odd", digest("b"), "odd"]


def beats(*rows: tuple[int, str | None, int, str | None]) -> duckdb.DuckDBPyRelation:
    """Return heartbeats by their microsecond, connection, place in it and stated id, as they are read."""
    us, channels, nths, stated = zip(*rows, strict=True)
    columns = {
        "namesrv_id": ["10.0.0.9:9876"] * len(rows),
        "namesrv_addr": ["10.0.0.9:9876"] * len(rows),
        "channel_id": channels,
        "code": pa.array([904] * len(rows), pa.int32()),
        "event_time": pa.array(us, TIMESTAMP),
        "nth": pa.array(nths, pa.int32()),
        "stated_id": pa.array(stated, pa.string()),
    }
    return connection().from_arrow(with_derived(pa.table(columns), HEARTBEATS))


def test_a_beats_id_follows_from_its_row_alike_everywhere():
    """What reads rows makes the id that a reader of captures gives; a stated one, and a row without connection, are told apart."""
    rows = beats((7, "a#1", 0, None), (7, "a#1", 1, None), (8, "a#1", 0, "x"), (8, None, 0, None))
    expected = [timed_id("10.0.0.9:9876", *of) for of in (("a#1", 904, 7, 0), ("a#1", 904, 7, 1))]
    last = timed_id("10.0.0.9:9876", None, 904, 8, 0)
    assert [found for (found,) in rows.project("event_id").fetchall()] == [*expected, "x", last]


def test_ids_of_beats_are_found_by_their_microsecond():
    """Of beats whose ids follow from their rows all of a microsecond are given, and of stated ones those with the print."""
    rows = beats((6, "a#1", 0, None), (6, "b#1", 0, None), (6, "c#1", 0, digest("c")), (7, "a#1", 0, None))
    follow = [timed_id("10.0.0.9:9876", channel, 904, 6, 0) for channel in ("a#1", "b#1")]

    assert keys.ids_with(rows, "heartbeats", np.array([6], np.uint64)) == follow
    assert keys.ids_with(rows, "heartbeats", keys.ids_of(rows, "heartbeats").prints) == [digest("c")]
