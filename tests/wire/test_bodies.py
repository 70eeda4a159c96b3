"""Bodies of requests: layouts, defaults, what Java accepts and refuses, and limits."""

from __future__ import annotations

import json
import struct
import time
import tracemalloc
import zlib

import pytest

from namesrv_wire.errors import MAX_TOPICS, MIB, DecodeError, Reason
from namesrv_wire.protocol.bodies import RegisterBody, decode_queue_datas, decode_register_body, topic_table
from tests.wire.forge import compressed_body, long_string, register_json

NOW_MS = 1_700_000_000_000
TOPIC = {"topic": "T", "read_queue_nums": 4, "write_queue_nums": 4, "perm": 6, "topic_sys_flag": 0}


def decode(body: bytes, *, compressed: bool = False, version: int = 407) -> RegisterBody:
    return decode_register_body(body, compressed=compressed, version=version, now_ms=NOW_MS)


def refusal(body: bytes, *, compressed: bool = False, version: int = 407) -> Reason:
    with pytest.raises(DecodeError) as caught:
        decode(body, compressed=compressed, version=version)
    return caught.value.reason


def test_json_body() -> None:
    """Topics, version and filter list of a plain body arrive."""
    got = decode(register_json({"T": 4}))
    assert got.data_version == {"state_version": 0, "timestamp": 5, "counter": 1}
    assert got.topics is not None
    assert (got.topics.topics, got.topics.mappings) == ([TOPIC], [])
    assert got.filter_servers == []


def test_compressed_body_of_4x() -> None:
    """The zlib layout gives the same topic; it carries no topicSysFlag."""
    got = decode(compressed_body([b"T 4 4 6 SINGLE_TAG"], b'["f:1"]'), compressed=True)
    assert got.data_version == {"state_version": 0, "timestamp": 5, "counter": 1}
    assert got.topics is not None
    assert got.topics.topics == [TOPIC]
    assert got.filter_servers == ["f:1"]


def test_compressed_body_of_5x_has_mappings() -> None:
    """From V5_0_0 on the layout ends with mapping entries, whose keys may be bare integers."""
    info = b'{"topic":"T","bname":"b","totalQueues":8,"epoch":3,"currIdMap":{2:0,4:1}}'
    plain = zlib.decompress(compressed_body([b"T 4 4 6 SINGLE_TAG"]))
    got = decode(zlib.compress(plain + struct.pack(">i", 1) + long_string(info)), compressed=True, version=493)
    assert got.topics is not None
    assert got.topics.mappings[0]["curr_id_map"] == '{"2":0,"4":1}'


def test_body_of_an_old_request_is_the_wrapper_alone() -> None:
    """Below V3_0_11 there is no filter list: it stays as it was."""
    wrapper = json.loads(register_json({"T": 4}))["topicConfigSerializeWrapper"]
    got = decode(json.dumps(wrapper).encode(), version=36)
    assert got.topics is not None
    assert got.topics.topics == [TOPIC]
    assert got.filter_servers is None


def test_no_body_registers_version_zero_without_topics() -> None:
    """An empty body is a registration of nothing, with the filter list emptied (null for old requests)."""
    got = decode(b"")
    assert got == RegisterBody({"state_version": 0, "timestamp": 0, "counter": 0}, topic_table([], []), [])
    assert decode(b"", version=3).filter_servers is None


@pytest.mark.parametrize(
    ("body", "version", "topics", "filters"),
    [
        (b"{}", {"state_version": 0, "timestamp": NOW_MS, "counter": 0}, [], []),
        (b'{"filterServerList":null}', {"state_version": 0, "timestamp": NOW_MS, "counter": 0}, [], None),
        (b'{"topicConfigSerializeWrapper":null}', None, None, []),
        (b'{"topicConfigSerializeWrapper":{"dataVersion":null}}', None, [], []),
        (
            b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":null},"topicConfigTable":null}}',
            {"state_version": 0, "timestamp": NOW_MS, "counter": None},
            None,
            [],
        ),
    ],
)
def test_absent_and_null_differ(body: bytes, version: object, topics: object, filters: object) -> None:
    """What is absent gets Java's default (the clock for a timestamp), what is null stays null."""
    got = decode(body)
    assert got.data_version == version
    assert (None if got.topics is None else got.topics.topics) == topics
    assert got.filter_servers == filters


def test_topic_fields_have_the_defaults_of_topic_config() -> None:
    """A topic without numbers has 16 queues and perm 6; numbers as text are cast."""
    body = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":"4"}}}}'
    table = decode(body).topics
    assert table is not None
    assert table.topics == [
        {"topic": "T", "read_queue_nums": 16, "write_queue_nums": 16, "perm": 4, "topic_sys_flag": 0}
    ]


def test_bare_integer_keys_are_tolerated_only_outside_strings() -> None:
    """Static topics of 5.x write {2:0}; text that looks like it inside a string is left alone."""
    name = 'x{1:2,3:4}"'
    body = json.dumps({"topicName": name}).encode()
    text = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":' + body + b"},"
    text += b'"topicQueueMappingInfoMap":{"T":{"bname":"b","totalQueues":8,"currIdMap":{2:0, 4:1}}}}}'
    table = decode(text, version=493).topics
    assert table is not None
    assert table.topics[0]["topic"] == name
    assert table.mappings[0] == {
        "topic": "T", "bname": "b", "total_queues": 8, "epoch": 0, "dirty": False, "scope": "__global__",
        "curr_id_map": '{"2":0,"4":1}',
    }  # fmt: skip


def test_digest_depends_on_content_and_not_on_order() -> None:
    """Equal topics in another order share a digest; any changed number gives another."""
    one, two = {**TOPIC, "topic": "A"}, {**TOPIC, "topic": "B"}
    assert topic_table([one, two], []).digest == topic_table([two, one], []).digest
    assert topic_table([one], []).digest != topic_table([{**one, "perm": 4}], []).digest
    assert len(topic_table([], []).digest) == 32


@pytest.mark.parametrize(
    "text",
    [
        b"a b 4 4 6 SINGLE_TAG",
        b"T 4 4 SINGLE_TAG",
        b"T x 4 6 SINGLE_TAG",
        b"T 4 4 6 NO_TAG",
        b"",
        b"T 99999999999 4 6 SINGLE_TAG",
    ],
)
def test_topic_texts_that_java_cannot_read_refuse_the_body(text: bytes) -> None:
    """A space in a name shifts the numbers, as in Java; what cannot be read there is refused here."""
    assert refusal(compressed_body([text]), compressed=True) is Reason.BAD_BODY


def test_shifted_topic_text_is_read_as_java_reads_it() -> None:
    """If the shifted words happen to be numbers, Java takes them; so do we."""
    table = decode(compressed_body([b"T 1 2 3 SINGLE_TAG {} more"]), compressed=True).topics
    assert table is not None
    assert table.topics[0]["perm"] == 3


def test_queue_numbers_are_numbers_and_nothing_more() -> None:
    """Absurd and negative queue counts are kept as they are; nothing is built from them."""
    table = decode(register_json({"T": 2**31 - 1, "U": -5})).topics
    assert table is not None
    assert [topic["read_queue_nums"] for topic in table.topics] == [2**31 - 1, -5]
    assert refusal(register_json({"T": 2**31})) is Reason.AMBIGUOUS_JSON


@pytest.mark.slow
def test_topic_count_lies() -> None:
    """A count of 2**31-1 with one topic ends where the bytes end; a true count above the limit is a limit."""
    body = compressed_body([b"T 4 4 6 SINGLE_TAG"], count=2**31 - 1)
    tracemalloc.start()
    assert refusal(body, compressed=True) is Reason.BAD_BODY
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * MIB
    table = b",".join(b'"t%d":{}' % n for n in range(MAX_TOPICS + 1))
    many = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{' + table + b"}}}"
    assert refusal(many) is Reason.TOO_MANY_TOPICS


def test_part_lengths_of_a_compressed_body_allocate_nothing() -> None:
    """A part that claims 2**31-1 bytes, or fewer than none, is refused without an allocation."""
    for length in (2**31 - 1, -1):
        tracemalloc.start()
        assert refusal(zlib.compress(struct.pack(">i", length) + b"{}"), compressed=True) is Reason.BAD_BODY
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MIB


@pytest.mark.slow
def test_zlib_bomb_is_refused_quickly_and_in_little_memory() -> None:
    """A part of 400 MB of zeros in 400 kB stops at the ratio limit, not at the end of memory."""
    packer = zlib.compressobj(9)
    bomb = packer.compress(struct.pack(">i", 400 * MIB))
    for _ in range(400):
        bomb += packer.compress(b"\x00" * MIB)
    bomb += packer.flush()
    tracemalloc.start()
    began = time.perf_counter()
    assert refusal(bomb, compressed=True) is Reason.INFLATED_TOO_BIG
    elapsed = time.perf_counter() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert elapsed < 1
    assert peak < 32 * MIB


@pytest.mark.parametrize("body", [b"x\x9cnonsense", b"\x00", zlib.compress(b"\x00\x00"), compressed_body([])[:-20]])
def test_what_is_no_whole_zlib_body_is_refused(body: bytes) -> None:
    """Damaged, foreign and cut-off streams are refusals of the server, not limits of ours."""
    assert refusal(body, compressed=True) is Reason.BAD_BODY


def test_a_body_that_is_null_is_refused() -> None:
    """Both releases refuse null; before V3_0_11 it registers without a data version."""
    assert refusal(b"null") is Reason.BAD_BODY
    assert decode(b"null", version=36) == RegisterBody(None, None, None)


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"topicConfigSerializeWrapper":[]}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":null}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":null}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"Perm":4}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"topicName":-0}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"topicFilterType":false}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":4,"perm":6}}}}',
        b'{"topicConfigSerializeWrapper":{"dataVersion":{"timestamp":null}}}',
        b'{"filterServerList":[null]}',
        b'{"filterServerList":["a"],}',
        b'{"filterServerList":["\xff"]}',
    ],
)
def test_bodies_that_the_releases_read_differently_are_ambiguous(body: bytes) -> None:
    """Other shapes, other case, duplicates, nulls in numbers, loose syntax: neither decoded nor taken for refused."""
    assert refusal(body) is Reason.AMBIGUOUS_JSON


def test_scalars_become_what_java_makes_of_them() -> None:
    """Where both releases cast alike, we do: fractions are cut, numbers become text."""
    body = b'{"filterServerList":[1,true,1.50],"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":1.5}}}}'
    got = decode(body)
    assert got.filter_servers == ["1", "true", "1.50"]
    assert got.topics is not None
    assert got.topics.topics[0]["perm"] == 1


def test_a_blank_filter_list_of_a_compressed_body_is_ambiguous() -> None:
    """4.9.7 reads null from blanks, 5.4.0 an empty list; nothing at all is null to both, and no JSON an empty list."""
    assert refusal(compressed_body([], b"  "), compressed=True) is Reason.AMBIGUOUS_JSON
    assert decode(compressed_body([], b""), compressed=True).filter_servers is None
    assert decode(compressed_body([], b"nothing at all"), compressed=True).filter_servers == []


def test_damage_behind_the_last_part_of_a_compressed_body_does_no_harm() -> None:
    """Java inflates no further than it reads: what stands behind the last part, and its checksum, are never seen."""
    body = zlib.compress(zlib.decompress(compressed_body([b"T 4 4 6 SINGLE_TAG"])) + bytes(100))
    broken = body[:-1] + bytes([body[-1] ^ 1])
    assert decode(broken, compressed=True) == decode(body, compressed=True)


def test_queue_datas_of_register_topic() -> None:
    """REGISTER_TOPIC_IN_NAMESRV: queue data arrive; no body and a null list are None."""
    body = b'{"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":4,"writeQueueNums":2}]}'
    assert decode_queue_datas(body) == [
        {"broker_name": "b", "read_queue_nums": 4, "write_queue_nums": 2, "perm": 6, "topic_sys_flag": 0}
    ]
    assert decode_queue_datas(b"") is None
    assert decode_queue_datas(b'{"queueDatas":null}') is None
