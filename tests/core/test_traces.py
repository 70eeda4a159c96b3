"""Twenty recorded traces of the real name server.

Every result, every state and every answer must be equal.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from namesrv_core.asking.answers import answer, remark_matches
from namesrv_core.machine.codes import Question
from tests.oracle.sequences import Adversary
from tools.trace.trace import Trace, TraceError, replayed
from tools.trace.trace_state import canonical

TRACES = sorted((Path(__file__).parent / "traces").glob("*/*.jsonl.gz"))
CODES = {
    "route": 105,
    "cluster_info": 106,
    "topic_list": 206,
    "topics_by_cluster": 224,
    "system_topics": 304,
    "unit_topics": 311,
    "unit_sub_topics": 312,
    "unit_sub_ununit_topics": 313,
}


def lines_of(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return list(lines)


def name_of(path: Path) -> str:
    return f"{path.parent.name}-{path.name[:3]}"


def test_traces_of_both_generations_are_there() -> None:
    """The comparison below covers ten traces of each generation; an empty folder must not pass."""
    assert [path.parent.name for path in TRACES] == ["4.9.7"] * 10 + ["5.4.0"] * 10


@pytest.mark.parametrize("path", TRACES, ids=name_of)
def test_trace_gives_the_recorded_results_and_states(path: Path) -> None:
    """Each event returns what the real thing returned and leaves the state that it held."""
    lines = lines_of(path)
    for recorded, record in zip(map(json.loads, lines), replayed(lines), strict=True):
        at = f"line {recorded['i']}, {recorded['ev']}"
        assert record["res"] == recorded["res"], at
        if "st" in recorded:
            assert record["st"] == recorded["st"], at
        assert record["h"] == recorded["h"], at
        assert record["i"] == recorded["i"]


@pytest.mark.parametrize("path", TRACES, ids=name_of)
def test_trace_gives_the_recorded_answers_byte_for_byte(path: Path) -> None:
    """A question is answered with the recorded code, remark and body text, list orders included."""
    trace = Trace()
    for recorded in map(json.loads, lines_of(path)):
        ev, wire = recorded["ev"], recorded.get("wire")
        if ev["op"] not in CODES:
            trace.take(ev)
            continue
        subject = ev["cluster"] if ev["op"] == "topics_by_cluster" else ev.get("topic")
        question = Question(CODES[ev["op"]], subject, standard_json=True)  # the recorded route requests asked for it
        expected = answer(trace.registry, question, trace.namesrv)
        assert (expected.code, expected.body) == (wire["code"], wire["body"]), ev
        assert remark_matches(wire["remark"], expected.remark), ev


def test_states_may_be_left_out() -> None:
    """With `states` off the hash stays, so that long traces can be compared cheaply."""
    lines = lines_of(TRACES[0])[:5]
    with_states = list(replayed(lines))
    without = list(replayed(lines, states=False))
    assert without == [{"i": r["i"], "res": r["res"], "h": r["h"]} for r in with_states]
    hashes = [hashlib.sha256(canonical(r["st"]).encode()).hexdigest()[:16] for r in with_states]
    assert hashes == [r["h"] for r in without]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.9.7", "5.4.0"])
def test_kept_hash_is_that_of_the_whole_state(version: str) -> None:
    """After each of 3,000 adversarial events the hash kept row by row is that of the state written anew."""
    trace = Trace()
    for ev in islice(Adversary(random.Random(1), version).events(), 3_000):
        trace.take(ev)
        whole = canonical(trace.state()).encode("utf-8", errors="surrogatepass")
        assert trace.state_hash() == hashlib.sha256(whole).hexdigest()[:16], ev


def test_profile_of_the_caller_overrides_the_recorded_one() -> None:
    """A trace can be replayed by the rules of the other generation: states then have its tables."""
    init = '{"ev": {"op": "init", "profile": "4.9.7"}}'
    (record,) = replayed([init], "5.4.0")
    assert record["st"]["pendingUnregister"] == []
    assert "pendingUnregister" not in next(replayed([init]))["st"]


REGISTER = {
    "op": "register", "t_ms": 1, "cluster": "C", "addr": "a:1", "name": "b", "id": 0, "ha": "h",
    "dv": {"ts": 1, "counter": 1}, "topics": [], "filters": None, "ch": "c",
}  # fmt: skip


def registering(**fields: Any) -> str:
    return json.dumps({"ev": {**REGISTER, **fields}})


MALFORMED = (Path(__file__).parent / "malformed.txt").read_text(encoding="utf-8").splitlines()
"""Lines of a trace; `register` stands before fields that a registration has otherwise."""


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[" * 100000,
        '{"ev": {"op": "scan", "t_ms": ' + "9" * 5000 + "}}",
        b'{"ev": {"op": "wipe_perm", "t_ms": 1, "name": "\xff"}}',
        b"\x00",
        *MALFORMED,
    ],
)
def test_malformed_line_is_named(line: str | bytes) -> None:
    """Whatever is wrong with a line, the error names its number and nothing else escapes."""
    if isinstance(line, str) and line.startswith("register "):
        line = registering(**json.loads(line.removeprefix("register ")))
    lines: list[str | bytes] = ['{"ev": {"op": "init", "profile": "5.4.0"}}', registering(), line]
    with pytest.raises(TraceError, match=r"^line 3: "):
        list(replayed(lines))


def test_lines_before_a_malformed_one_are_still_given() -> None:
    """Results come line by line: an error does not take back what was computed before it."""
    records = replayed(['{"ev": {"op": "init", "profile": "4.9.7"}}', "{"])
    assert next(records)["i"] == 0
    with pytest.raises(TraceError, match="line 2"):
        next(records)


def test_null_names_have_a_state_too() -> None:
    """4.9.7 registers a request without a cluster under null, beside others.

    The state can still be written and hashed.
    """
    lines = [
        '{"ev": {"op": "init", "profile": "4.9.7"}}',
        registering(),
        registering(cluster=None, name=None, addr="a:2"),
    ]
    st = list(replayed(lines))[-1]["st"]
    assert st["clusterAddrTable"] == {"C": ["b"], "null": ["null"]}
    assert sorted(st["brokerAddrTable"]) == ["b", "null"]


def test_restart_without_its_file_forgets_the_kv_table() -> None:
    """`keep_kv` false stands for a lost file; by default the table survives."""
    put = '{"ev": {"op": "kv_put", "t_ms": 1, "ns": "N", "key": "k", "value": "v"}}'
    init = '{"ev": {"op": "init", "profile": "4.9.7"}}'
    kept = list(replayed([init, put, '{"ev": {"op": "restart", "t_ms": 2}}']))[-1]["st"]["kvConfig"]
    lost = list(replayed([init, put, '{"ev": {"op": "restart", "t_ms": 2, "keep_kv": false}}']))[-1]["st"]["kvConfig"]
    assert (kept, lost) == ({"N": {"k": "v"}}, {})


def test_state_hash_is_that_of_the_text_in_utf_8() -> None:
    """Names beyond ASCII are not escaped before they are hashed; half a surrogate pair is hashed as it stands."""
    lines = [{"op": "init", "profile": "4.9.7"}, {**REGISTER, "topics": []}]
    for name in ("主题", "\ud83d"):
        lines.append({**REGISTER, "name": name, "addr": name})
        last = list(replayed(json.dumps({"ev": ev}) for ev in lines))[-1]
        text = json.dumps(last["st"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert name in text
        assert last["h"] == hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def asked(*evs: dict[str, Any], profile: str = "4.9.7") -> list[Any]:
    """Return what each event of a trace returns."""
    init = {"op": "init", "profile": profile}
    return [record["res"] for record in replayed([json.dumps({"ev": ev}) for ev in (init, *evs)], states=False)][1:]


def test_kv_list_is_the_json_of_the_name_server() -> None:
    """No blanks, nothing escaped, no key whose value is null."""
    puts = [
        {"op": "kv_put", "t_ms": 1, "ns": "N", "key": k, "value": v} for k, v in [("a", "é"), ("b", None), ("c", "x")]
    ]
    assert asked(*puts, {"op": "kv_list", "ns": "N"})[-1] == {"json": '{"table":{"a":"é","c":"x"}}'}


def test_topics_of_a_trace_are_listed() -> None:
    """By cluster, by unit flags, and with null names, which sort as the word null."""
    topics = [{"name": f"T{flag}", "r": 4, "w": 4, "perm": 6, "sys": flag} for flag in range(4)]
    found = asked(
        {**REGISTER, "topics": topics},
        {**REGISTER, "cluster": None, "name": None, "addr": "a:2"},
        {"op": "topics_by_cluster", "cluster": "C"},
        {"op": "unit_topics"},
        {"op": "unit_sub_topics"},
        {"op": "unit_sub_ununit_topics"},
        {"op": "system_topics"},
    )[2:]
    assert [listed["topicList"] for listed in found] == [
        ["T0", "T1", "T2", "T3"], ["T1", "T3"], ["T2", "T3"], ["T2"], ["C", "b", None],
    ]  # fmt: skip


def test_questions_without_a_subject() -> None:
    """5.x: a null topic or name is looked up in maps that take none, and a list of topics takes none either."""
    told: list[dict[str, Any]] = [
        REGISTER,
        {**REGISTER, "name": None, "addr": "a:2"},
        *({"op": op} for op in ("route", "member_group", "system_topics")),
    ]
    _, *results = asked(*told, profile="5.4.0")
    assert [result["swallowed"] for result in results] == [["java.lang.NullPointerException"]] * 4
    assert results[1]["ret"] is None
    assert results[2]["brokerAddrs"] == {}
    assert results[3]["brokerAddr"] is None
    assert set(results[3]["topicList"]) <= {"C", "b"}


def test_queries_of_a_trace_answer_in_its_form() -> None:
    """Member groups, KV values and lists, a cluster's topics, null queues: known and unknown ones."""
    found = asked(
        {"op": "kv_put", "t_ms": 1, "ns": "N", "key": "k", "value": "v"},
        REGISTER,
        {**REGISTER, "id": 1, "topics": None, "addr": "a:2"},
        {"op": "register_topic", "t_ms": 1, "topic": "T", "queues": None},
        *({"op": "member_group", "cluster": "X", "name": name} for name in ("b", "unknown")),
        *({"op": "kv_get", "ns": "N", "key": key} for key in "kl"),
        *({"op": "kv_list", "ns": namespace} for namespace in "NM"),
        *({"op": "topics_by_cluster", "cluster": cluster} for cluster in "CX"),
        profile="5.4.0",
    )
    null_pointer = ["java.lang.NullPointerException"]
    assert found[2:] == [
        {"ret": {"haServerAddr": None, "masterAddr": None}, "swallowed": null_pointer},
        {},
        {"cluster": "X", "brokerName": "b", "brokerAddrs": {"0": "a:1"}},
        {"cluster": "X", "brokerName": "unknown", "brokerAddrs": {}},
        {"value": "v"},
        {"value": None},
        {"json": '{"table":{"k":"v"}}'},
        {"json": None},
        {"topicList": [], "brokerAddr": None},
        {"topicList": [], "brokerAddr": None, "swallowed": null_pointer},
    ]


def test_lost_channel_of_a_trace_has_the_remote_address_of_its_event_or_of_the_first_line() -> None:
    """4.9.7 takes that address for a broker's where no live entry has the channel; an explicit null is none."""
    init = {"op": "init", "profile": "4.9.7", "channels": {"x": "a:1"}}
    lost = {"op": "channel_destroy", "t_ms": 2, "ch": "x"}
    left = []
    for ev in (lost, {**lost, "remote": "a:1"}, {**lost, "remote": None}, {**lost, "ch": "y"}, {**lost, "ch": None}):
        lines = [json.dumps({"ev": each}) for each in (init, REGISTER, ev)]
        left.append(len(list(replayed(lines))[-1]["st"]["brokerAddrTable"]))
    assert left == [0, 0, 1, 1, 1]


def test_error_of_an_event_names_its_operation_and_what_is_wrong() -> None:
    """The message is all that the reader of a long trace has."""
    with pytest.raises(TraceError, match=r"^event 'scan': TypeError t_ms is '1', expected an integer$"):
        Trace().take({"op": "scan", "t_ms": "1"})
    with pytest.raises(TraceError, match=r"^event 7: not an object$"):
        Trace().take(7)  # type: ignore[arg-type]
