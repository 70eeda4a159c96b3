"""Reassembly of one direction."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from namesrv_wire.errors import GAP_ACKED_NS, GAP_NS, MAX_REORDER_BYTES
from namesrv_wire.streams.cutting import Missing, Stream


def begun(seq: int = 0) -> Stream:
    stream = Stream()
    stream.begin(seq)
    return stream


def test_in_order_segments_come_out_at_once() -> None:
    """Nothing is held back while the bytes are in order."""
    stream = begun(100)
    assert stream.push(100, b"abc", 0, 0) == [b"abc"]
    assert stream.push(103, b"de", 0, 0) == [b"de"]
    assert stream.position == 5


def test_first_copy_of_overlapping_bytes_wins() -> None:
    """A retransmission with other content changes nothing that was already there."""
    stream = begun()
    assert stream.push(0, b"abc", 0, 0) == [b"abc"]
    assert stream.push(1, b"XXd", 0, 0) == [b"d"]
    stream = begun()
    stream.push(2, b"cd", 0, 0)
    assert b"".join(piece for piece in stream.push(0, b"abXYef", 0, 0) if isinstance(piece, bytes)) == b"abcdef"


def test_keep_alive_and_copies_are_no_data() -> None:
    """A garbage byte one before the next one, and whole copies, are dropped and counted."""
    stream = begun()
    stream.push(0, b"abc", 0, 0)
    assert stream.push(2, b"\x00", 0, 0) == []
    assert stream.push(0, b"abc", 0, 0) == []
    assert (stream.position, stream.chunks) == (3, [])


def test_far_away_sequence_numbers_are_ignored() -> None:
    """A segment more than 2**30 away belongs to no hole of this stream."""
    stream = begun()
    assert stream.push(1 << 31, b"x", 0, 0) == []
    assert stream.chunks == []


def test_a_hole_is_given_up_by_time_by_acknowledgement_and_by_size() -> None:
    """A hole ends when it is old, sooner if the other side acknowledged it. At once if too much waits behind it."""
    stream = begun()
    stream.push(5, b"f", 0, 0)
    assert stream.overdue(GAP_ACKED_NS + 1, 3) == []
    assert stream.overdue(GAP_ACKED_NS + 1, 6) == [Missing(5, False, True), b"f"]
    stream.push(10, b"k", 0, 0)
    assert stream.overdue(GAP_NS, None) == []
    assert stream.overdue(GAP_NS + 1, None) == [Missing(4, False, True), b"k"]
    stream.push(12, b"y" * (MAX_REORDER_BYTES // 2), 0, 0)
    assert stream.push(12 + MAX_REORDER_BYTES // 2, b"z" * MAX_REORDER_BYTES, 0, 0)[0] == Missing(1, False, True)


def test_bytes_cut_off_by_the_snap_length_are_a_hole() -> None:
    """Lost bytes at a segment's end are named, never taken for data, and a full copy behind them is one."""
    stream = begun()
    assert stream.push(0, b"ab", 3, 0) == [b"ab", Missing(3, True)]
    assert stream.position == 5
    assert stream.push(3, b"def", 0, 0) == [b"f"]


@given(st.data())
def test_any_segmentation_order_and_duplication_gives_the_same_bytes(data: st.DataObject) -> None:
    """However a stream is cut, shuffled and repeated, its bytes come out once and in order."""
    content = data.draw(st.binary(min_size=1, max_size=80))
    start = data.draw(st.sampled_from([0, 7, 0xFFFFFFF0]))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(content) - 1)), max_size=8)))
    edges = [0, *[cut for cut in cuts if cut < len(content)], len(content)]
    parts = [(low, content[low:high]) for low, high in pairwise(edges)]
    sent = data.draw(st.permutations(parts + data.draw(st.lists(st.sampled_from(parts), max_size=4))))
    stream = begun(start)
    pieces = [piece for at, part in sent for piece in stream.push(start + at & 0xFFFFFFFF, part, 0, 0)]
    assert b"".join(piece for piece in pieces if isinstance(piece, bytes)) == content
    assert not stream.chunks
