"""Keys that are there twice, found among numbers that files leave behind."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from namesrv_day import keys
from namesrv_day.sql import connection


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def ids(*found: str | None) -> keys.Ids:
    return keys.ids_of(relation(found))


def relation(found):
    return connection().from_arrow(pa.table({"event_id": pa.array(found, pa.string())}))


def copies(*files, parts: int = 1) -> tuple[int, int]:
    """Return how many ids are different in files with these ids, and how many prints are there more than once."""
    left = [keys.parts_of_ids("heartbeats", ids(*file).prints, parts) for file in files]
    found = keys.copies_in(pa.concat_tables(left))
    return sum(part.keys for part in found), sum(len(part.repeated) for part in found)


@pytest.mark.parametrize("parts", [1, 2, 1000])
@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([[], []], (0, 0)),
        ([["a", "b"], ["c"]], (3, 0)),
        ([["a", "b"], ["c", "a"]], (3, 1)),
        ([["a", "a", "b"], ["b", "a"], ["a"]], (2, 2)),
    ],
    ids=["none", "all different", "in two files", "often"],
)
def test_copies_are_found_in_whatever_files_they_are(files, expected, parts):
    """An id counts once, and as repeated once, however often and in however many files it is; parts make no difference."""
    assert copies(*([digest(name) for name in file] for file in files), parts=parts) == expected


def test_of_many_ids_every_copy_is_found():
    """Of 100,000 ids in four files, every thousandth of which is there twice, exactly the copies are found."""
    numbers = [digest(str(number)) for number in range(100_000)]

    found = copies(*(numbers[start::3] for start in range(3)), numbers[::1_000], parts=40)

    assert found == (100_000, 100)


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
    shared = keys.Copies("heartbeats", 3, ids(first).prints)
    asked = []

    def again(*ids_found: str):
        def find(table: str, prints: np.ndarray) -> list[str]:
            asked.append((table, prints.tolist()))
            return list(ids_found)

        return find

    (_, harmless) = keys.judged([], [shared], again(first, second))
    (_, broken) = keys.judged([], [shared], again(first, second, first))

    assert (harmless.rows, harmless.broken, harmless.sample) == (4, 0, ())
    assert (broken.rows, broken.broken) == (4, 1)
    assert broken.sample == (f'{{"event_id":"{first}","copies":2}}',)
    assert asked == [("heartbeats", ids(first).prints.tolist())] * 2


def test_the_ids_of_prints_are_found_again():
    """Of a file all ids are given that have one of the prints, as often as they are there."""
    rows = relation([digest("a"), "odd", digest("b"), None, "odd"])
    assert keys.ids_with(rows, ids("odd", digest("b")).prints) == ["odd", digest("b"), "odd"]


def test_positions_are_compared_in_whatever_order_they_lie():
    """Positions of one name server come out in order, negative ones too; each part holds all that is equal."""
    seqs = [5, None, -3, 1 << 60, 5, (1 << 38) + 1]
    positions = keys.positions_of(connection().from_arrow(pa.table({"seq": pa.array(seqs, pa.int64())})))

    found = keys.copies_in(
        pa.concat_tables([keys.parts_of_positions(name, positions, 5) for name in ("10.0.0.9:9876", "other")])
    )

    assert sorted(positions.view(np.int64).tolist()) == [-3, 5, 5, (1 << 38) + 1, 1 << 60]
    assert sum(part.keys for part in found) == 8
    assert [(part.owner, part.repeated.tolist()) for part in found if len(part.repeated)] == [
        ("10.0.0.9:9876", [5]),
        ("other", [5]),
    ]
