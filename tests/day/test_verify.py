"""Was every recorded answer right? Literal answers, held against what a small name server held when."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from namesrv_core import V5_4_0, Namesrv, NamesrvConfig, Question, Registry, answer, take
from namesrv_core.history.intervals import Histories, Interval, Position
from namesrv_core.history.verification import Observed, Verdict
from namesrv_core.machine import events
from namesrv_core.machine.profile import profile_named
from namesrv_core.machine.tables import DataVersion, TopicConfig, TopicTable
from namesrv_day import verify
from namesrv_day.arrow import table_of
from namesrv_day.rules import measure
from namesrv_day.verify import VerifyInput, verdicts
from schemas import bronze, gold
from schemas.codec import columns_of
from tests.day.settle_given import DAY, NAMESRV, Row, answered, asked_to, registered, row, seq_at
from tests.examples import examples
from tests.situations import Language, Situation

V5 = Namesrv(V5_4_0)
VERSION = DataVersion(0, 1, 1)
LISTED, EMPTY = '{"topicList":["T","U"]}', '{"topicList":[]}'
_TABLES = {table.name: table for table in bronze.RECORDED_TABLES}


_OPERATIONS = {
    events.UnregisterBroker: "unregister_broker",
    events.NamesrvStarted: "namesrv_started",
    events.ChannelDestroyed: "channel_close",
    events.UpdateNamesrvConfig: "update_namesrv_config",
}


class Server:
    """A name server that is told events, and keeps what a replay would say of them. `carried` came before midnight."""

    def __init__(
        self,
        *told: tuple[float, str, events.Event],
        carried: Sequence[events.Event] = (),
        namesrv: Namesrv | None = None,
    ) -> None:
        self.namesrv = namesrv or V5
        self.registry, self.histories = Registry(self.namesrv.profile), Histories()
        self.closed: list[Interval] = []
        self.outcomes: list[Row] = []
        for number, event in enumerate(carried):
            self.take(number - len(carried), f"carried {number}", event)
        self.outcomes.clear()
        for ms, event_id, event in told:
            self.take(ms, event_id, event)

    def take(self, ms: float, event_id: str, event: events.Event) -> None:
        """Take an event."""
        seq, operation = seq_at(ms), _OPERATIONS.get(type(event), "another")
        step = take(self.registry, event, seq // 1_000_000, self.namesrv)
        self.closed += self.histories.record(step.changes, seq=seq, event_id=event_id, at_us=seq // 1_000)
        self.outcomes.append({"event_id": event_id, "seq": seq, "operation": operation, "changes": len(step.changes)})

    def replayed(self, **others: pa.Table) -> dict[str, pa.Table]:
        """Return the slices of the day."""
        found = {"event_outcomes": table_of(self.outcomes, gold.EVENT_OUTCOMES, namesrv_id=NAMESRV, day=DAY)}
        intervals = [*self.closed, *self.histories.open_intervals()]
        for table in gold.HISTORY_TABLES:
            own = [interval for interval in intervals if f"{interval.table}_history" == table.name]
            columns = columns_of(table.name, own)
            rows = [
                dict(zip(columns, map(_plain, values), strict=True)) for values in zip(*columns.values(), strict=True)
            ]
            found[table.name] = table_of(rows, table, namesrv_id=NAMESRV, day=DAY)
        return {**found, **others}


def _plain(value: Any) -> Any:
    return value._asdict() if isinstance(value, Position) else value


def broker(topics: str, name: str = "broker-a", counter: int = 1) -> events.RegisterBroker:
    table = TopicTable([TopicConfig(topic, 4, 4, 6, 0) for topic in topics])
    addr, version = f"10.0.0.{ord(name[-1])}:10911", DataVersion(0, 1, counter)
    return events.RegisterBroker("C", addr, name, 0, None, version, table, (), f"{addr}#1", False)


def given_of(
    server: Server, rows: Mapping[str, Sequence[Row]], namesrv: Namesrv = V5, **replayed: pa.Table
) -> VerifyInput:
    """Return the day; `rows` by bronze table."""
    rows = {name: [{"stated_id": row["event_id"], **row} for row in of] for name, of in rows.items()}
    frames = {name: table_of(rows.get(name, ()), table) for name, table in _TABLES.items()}

    def raw(kind: str, *, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        return frames[kind].filter(where).select(columns)

    today = {name: frames[name] for name in ("route_observations", "unregistrations", "admin_events")}
    return VerifyInput(NAMESRV, DAY, namesrv, today, raw, server.replayed(**replayed))


def verified(server: Server, *answers: Row, namesrv: Namesrv = V5, **replayed: pa.Table) -> dict[str, pa.Table]:
    return verdicts(given_of(server, {"route_observations": answers}, namesrv, **replayed))


def checks(found: dict[str, pa.Table]) -> dict[int, dict[str, int]]:
    """Return the counts that are not 0, by request code. No answer is counted twice, or not at all: the gate would refuse it."""
    assert found_broken(found) == []
    rows = found["answer_checks"].select(
        [c for c in found["answer_checks"].column_names if c not in ("namesrv_id", "day")]
    )
    return {row["code"]: {k: v for k, v in row.items() if v and k != "code"} for row in rows.to_pylist()}


def found_broken(found: dict[str, pa.Table]) -> list[str]:
    return [m.rule for m in measure({"answer_checks": found["answer_checks"]}) if m.broken and m.severity == "critical"]


def listed(ms: float, event_id: str, body: str | None, asked: float | None = None, **values: Any) -> Row:
    """Return an answer to the question for all topics, which came a millisecond before or at `asked`."""
    return answered(ms, event_id, 206, None, body, request_seq=seq_at(ms - 1 if asked is None else asked), **values)


def test_answers_are_counted_and_wrong_ones_are_rows() -> None:
    """Equal in bytes, in order, as sets, or not at all; what was expected is what held at the answer."""
    server = Server((100, "r", broker("TU")))
    said = {"before": (50, EMPTY), "bytes": (200, LISTED), "order": (201, '{"topicList": ["T", "U"]}')}
    said |= {"set": (202, '{"topicList":["U","T"]}'), "wrong": (203, EMPTY)}
    found = verified(server, *(listed(ms, event_id, body) for event_id, (ms, body) in said.items()))
    expected = {"answers": 5, "matched": 4, "same_order": 3, "same_bytes": 2, "mismatched": 1}
    assert checks(found) == {206: expected}
    assert found["answer_checks"].schema.equals(table_of((), gold.ANSWER_CHECKS).schema)
    (wrong,) = found["route_mismatches"].to_pylist()
    times = {name: wrong.pop(name).microsecond for name in ("request_time", "answer_time")}
    assert times == {"request_time": 202_000, "answer_time": 203_000}
    what = {"namesrv_id": NAMESRV, "event_id": "wrong", "code": 206, "subject": None, "day": DAY}
    why = {"classification": "mismatched", "decision_id": None, "answered": EMPTY, "expected": LISTED}
    assert wrong == {**what, **why}


def sent(ms: float, event_id: str, topics: str = "T", received: float | None = None, **values: Any) -> Row:
    return registered(ms, event_id, topics, received_ms=received, **values)


CLOSED = events.ChannelDestroyed("10.0.0.97:10911#1", "10.0.0.97:4000")
GONE = events.UnregisterBroker("C", "10.0.0.97:10911", "broker-a", 0)
LANGUAGE = Language(
    {
        "namesrv": ("namesrv", lambda version: Namesrv(profile_named(version))),
        "carried": ("carried", broker),
        "broker": ("happened", lambda ms, name, topics: (ms, name, broker(topics))),
        "deleted": ("happened", lambda ms, name, topic: (ms, name, events.DeleteTopic(topic, None))),
        "closed": ("happened", lambda ms, name: (ms, name, CLOSED)),
        "unregistered": ("happened", lambda ms, name: (ms, name, GONE)),
        "sent": ("registrations", sent),
        "listed": ("route_observations", listed),
    },
    {"EMPTY": EMPTY, "LISTED": LISTED, "ONE": '{"topicList":["T"]}', "OTHER": '{"topicList":["V"]}'},
    DAY,
)


@pytest.mark.parametrize(
    "case", [*LANGUAGE.read(Path(__file__).with_name("verify.txt"))], ids=lambda of: f"{of.name}: {of.shows}"
)
def test_answers_are_held_against_what_was_held(case: Situation) -> None:
    """How many match, and which do not for what reason."""
    (namesrv,) = case.rows.get("namesrv", [V5])
    server = Server(*case.rows["happened"], carried=case.rows.get("carried", ()), namesrv=namesrv)
    rows = {name: case.rows.get(name, []) for name in ("registrations", "admin_events", "route_observations")}
    settings = table_of(case.rows.get("namesrv_settings", ()), gold.NAMESRV_SETTINGS, namesrv_id=NAMESRV, day=DAY)
    others = {"namesrv_settings": settings} if settings.num_rows else {}
    found = verdicts(given_of(server, rows, namesrv, **others))
    lines = [" ".join([f"{code}", *(f"{k}={v}" for k, v in of.items())]) for code, of in sorted(checks(found).items())]
    wrong = sorted(f"{row['event_id']} {row['classification']}" for row in found["route_mismatches"].to_pylist())
    assert lines + wrong == case.found


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Observed]:
    """Return the list to which all answers that are judged are added."""
    noted: list[Observed] = []
    core = verify.verify  # type: ignore[attr-defined]  # imported there, and replaced here

    def noting(*args: Any, **starts: Any) -> list[Verdict]:
        noted.extend(args[2])
        return core(*args, **starts)

    monkeypatch.setattr(verify, "verify", noting)
    return noted


def test_answers_that_say_the_same_between_changes_are_judged_once(judged: list[Observed]) -> None:
    """A change that does not concern a question parts no answers to it; those that were under way stand for themselves."""
    server = Server((100, "r", broker("TU")), (500, "k", events.PutKvConfig("N", "k", "v")))
    answers = [listed(ms, f"a{ms}", EMPTY if ms <= 100 else LISTED, ms - 0.5) for ms in range(1, 1_000)]
    under_way = listed(100.5, "under way", EMPTY, 99)
    assert checks(verified(server, *answers, under_way)) == {
        206: {"answers": 1_000, "matched": 1_000, "same_order": 1_000, "same_bytes": 1_000, "in_flight": 1}
    }
    assert len(judged) == 3


def test_responses_to_equal_heartbeats_are_judged_once(judged: list[Observed]) -> None:
    """Whatever ids their source states, and however many come in one microsecond: a broker of an event log sends thousands."""
    server = Server((100, "r", broker("TU")))
    heard: Row = {"cluster_name": "C", "broker_name": "broker-a", "broker_addr": "10.0.0.97:10911", "one_way": False}
    heard |= {"code": 322, "request_version": 493, "response_code": 0, "data_version": VERSION._asdict()}
    heard |= {"response_fields": '{"changed":"false"}', "response_body": '{"counter":1,"stateVersion":0,"timestamp":1}'}
    beats = [row(200 + number // 2, f"b{number}", **heard, nth=number % 2) for number in range(100)]
    right = {"answers": 100, "matched": 100, "same_order": 100, "same_bytes": 100}
    assert checks(verdicts(given_of(server, {"heartbeats": beats}))) == {322: right}
    assert len(judged) == 1


def test_what_explains_an_answer_is_its_class() -> None:
    """Another order than the one taken, or a past that was not known; the first of both. Only where it does not match."""
    server = Server((100, "r", broker("TU")))
    decision = {"decision_id": "d", "evidence_against": ["race", "both", "right"], "namesrv_id": NAMESRV, "day": DAY}
    said = {"operation": "observed_answer", "outcome": "unknown_past", "changes": 0}
    outcomes = [*server.outcomes, *({"event_id": event_id, "seq": 0, **said} for event_id in ("both", "past"))]
    found = verified(
        server,
        *(listed(200 + n, event_id, EMPTY) for n, event_id in enumerate(("race", "both", "past", "wrong"))),
        listed(300, "right", LISTED),
        order_decisions=table_of([decision], gold.ORDER_DECISIONS),
        event_outcomes=table_of(outcomes, gold.EVENT_OUTCOMES),
    )
    matched = {"matched": 1, "same_order": 1, "same_bytes": 1}
    assert checks(found) == {206: {"answers": 5, **matched, "explained": 2, "unknown_past": 1, "mismatched": 1}}
    rows = {r["event_id"]: (r["classification"], r["decision_id"]) for r in found["route_mismatches"].to_pylist()}
    by_order = ("order_decision", "d")
    assert rows == {"race": by_order, "both": by_order, "past": ("unknown_past", None), "wrong": ("mismatched", None)}


def route(*names: str, perm: int = 6) -> str:
    queues = [
        {"brokerName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": perm, "topicSysFlag": 0} for name in names
    ]
    groups = [
        {
            "brokerName": name,
            "brokerAddrs": {"0": f"10.0.0.{ord(name[-1])}:10911"},
            "cluster": "C",
            "enableActingMaster": False,
        }
        for name in names
    ]
    return json.dumps({"brokerDatas": groups, "filterServerTable": {}, "queueDatas": queues}, separators=(",", ":"))


@pytest.mark.parametrize(
    ("spans_ms", "explained"),
    [
        ((), (4, 4)),
        (((0, None),), (0, 4)),
        (((250, None),), (3, 4)),
        (((0, 225),), (0, 2)),
        (((0, 9), (245, 300)), (3, 4)),
    ],
)
def test_brokers_that_nobody_registered_are_a_gap_where_something_could_not_be_read(
    spans_ms: tuple[tuple[int, int | None], ...], explained: tuple[int, int]
) -> None:
    """While such a connection is open; what they hide nothing of stays a mismatch: seen brokers, fewer topics, errors."""
    server = Server((100, "r", broker("TU")), (101, "s", broker("TW", "broker-s")))
    both = ("broker-a", "broker-s")
    members = '{"brokerMemberGroup":{"brokerName":"broker-x"}}'
    said = {
        "unseen": (105, "T", route(*both, "broker-x")),
        "of a topic that nobody has": (105, "V", route("broker-x")),
        "more topics": (206, None, '{"topicList":["T","U","V","W"]}'),
        "members": (901, "broker-x", members),
        "one is missing": (105, "T", route("broker-a", "broker-x")),
        "another perm": (105, "T", route(*both, perm=4)),
        "other topics": (206, None, '{"topicList":["T","V"]}'),
        "of a seen one": (901, "broker-s", members),
    }
    rows = [
        answered(200 + 20 * number, event_id, code, subject, body, request_seq=seq_at(199 + 20 * number))
        for number, (event_id, (code, subject, body)) in enumerate(said.items())
    ]
    registrations = [registered(100 + number, f"b{number}", broker_name=name) for number, name in enumerate(both)]
    given = given_of(server, {"route_observations": rows, "registrations": registrations})
    unread = [(seq_at(begin) // 1_000, None if end is None else seq_at(end) // 1_000) for begin, end in spans_ms]
    found = verdicts(replace(given, unread=unread))
    gaps = {
        row["event_id"] for row in found["route_mismatches"].to_pylist() if row["classification"] == "unseen_broker"
    }
    assert gaps == set([*said][slice(*explained)])
    counts = checks(found)
    assert sum(of["mismatched"] for of in counts.values() if "mismatched" in of) == len(said) - len(gaps)
    assert sum(of.get("unknown_past", 0) for of in counts.values()) == len(gaps)


@pytest.mark.parametrize(
    ("names", "classes"), [(["broker-a"], ["mismatched"]), (["broker-a", "broker-x"], ["unseen_broker"] * 2)]
)
def test_a_longer_list_is_a_gap_only_where_no_answer_denies_it(names: list[str], classes: list[str]) -> None:
    """Who asks for all brokers meanwhile is told nobody unseen: then the topic is the replay's fault."""
    server = Server((100, "r", broker("TU")))
    groups = {group["brokerName"]: group for group in json.loads(route(*names))["brokerDatas"]}
    shown = json.dumps({"brokerAddrTable": groups, "clusterAddrTable": {"C": [*names]}})
    rows = [
        answered(200, "all", 106, None, shown, request_seq=seq_at(199)),
        answered(220, "more", 206, None, '{"topicList":["T","U","V"]}', request_seq=seq_at(219)),
    ]
    given = given_of(
        server, {"route_observations": rows, "registrations": [registered(100, "b", broker_name="broker-a")]}
    )
    found = verdicts(replace(given, unread=[(seq_at(0) // 1_000, None)]))
    assert [row["classification"] for row in found["route_mismatches"].to_pylist()] == classes


def test_responses_to_events_are_answers_too() -> None:
    """Asked again at the state that it left, a request gets the same; a response of which only the code is kept says nothing."""
    server = Server((100, "r", broker("TU")), (200, "w", events.WipeWritePerm("broker-a")))
    heard: Row = {"cluster_name": "C", "broker_name": "broker-a", "broker_addr": "10.0.0.97:10911", "one_way": False}
    heard |= {"code": 322, "request_version": 493, "response_code": 0, "data_version": VERSION._asdict()}
    body = '{"counter":1,"stateVersion":0,"timestamp":1}'
    beats = [
        row(300, "same", **heard, response_fields='{"changed":"false"}', response_body=body),
        row(301, "other", **heard, response_fields='{"changed":"true"}', response_body=body),
        row(302, "code only", **heard),
        row(303, "light", **{**heard, "code": 904}, response_fields="{}"),
    ]
    wiped = asked_to(200, "w", 205, broker_name="broker-a", response_fields='{"wipeTopicCount":"2"}')
    told = registered(100, "r", "TU", broker_addr="10.0.0.97:10911", topic_count=2, response_fields="{}")
    deleted = asked_to(400, "d", 216, topic="X", response_fields="{}")
    found = verdicts(given_of(server, {"heartbeats": beats, "registrations": [told], "admin_events": [wiped, deleted]}))
    right = {"answers": 1, "matched": 1, "same_order": 1, "same_bytes": 1}
    assert checks(found) == {103: right, 205: right, 322: {**right, "answers": 2, "mismatched": 1}}
    (wrong,) = found["route_mismatches"].to_pylist()
    assert (wrong["event_id"], wrong["subject"], wrong["answered"], wrong["expected"]) == (
        "other",
        "broker-a",
        '{"changed":"true"}\n' + body,
        '{"changed":"false"}\n' + body,
    )


MILLION = 1_000_000
MORE = '{"topicList":["T","U","V"]}'


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [
        (MILLION // 2, '{"topicList":["W"]}'),
        (0, EMPTY),
        (MILLION // 2, EMPTY),
        (MILLION - 1, MORE),
        (MILLION - 1, None),
    ],
    ids=["never so", "still the old one", "the old one again", "too early", "none"],
)
def test_one_wrong_answer_among_a_million_is_found_and_named(wrong: tuple[int, str | None]) -> None:
    """At the start, in the middle and at the end of a quiet hour, of which others rightly say the same."""
    number, body = wrong
    server = Server((1_000, "r", broker("TU")), (3_599_000, "s", broker("TUV", counter=2)))
    ms = np.concatenate(
        [np.arange(1, 901), np.linspace(1_001, 3_598_990, MILLION).astype(np.int64), 3_599_001 + np.arange(900)]
    )
    texts = pa.array([EMPTY, LISTED, MORE, body])
    said = np.repeat([0, 1, 2], [900, MILLION, 900])
    said[900 + number] = 3
    effect_us = seq_at(0) // 1_000 + ms * 1_000 + np.arange(len(ms)) % 7
    columns = {
        "effect_time": effect_us,
        "event_time": effect_us - 50,
        "seq": effect_us * 1_000,
        "request_seq": (effect_us - 50) * 1_000,
        "body": texts.take(pa.array(said)),
        "event_id": np.arange(len(ms)),
    }
    day = given_of(server, {})
    rows = table_of([listed(1, "any", LISTED)], bronze.ROUTE_OBSERVATIONS).take(pa.array(np.zeros(len(ms), np.int64)))
    for name, values in columns.items():
        field = rows.schema.field(name)
        rows = rows.set_column(rows.schema.get_field_index(name), field, pa.array(values).cast(field.type))
    found = verdicts(replace(day, today={**day.today, "route_observations": rows}))
    count = len(ms) - 1
    right = {"matched": count, "same_order": count, "same_bytes": count}
    assert checks(found) == {206: {"answers": count + 1, **right, "mismatched": 1}}
    (mismatch,) = found["route_mismatches"].to_pylist()
    assert (mismatch["answered"], mismatch["expected"]) == (body, LISTED)
    assert mismatch["event_id"] == str(900 + number)


def test_a_day_without_answers_has_no_rows() -> None:
    """Nothing is replayed for it."""
    found = verdicts(replace(given_of(Server(), {}), replayed={}, today={}))
    assert (found["answer_checks"].num_rows, found["route_mismatches"].num_rows) == (0, 0)


def test_answers_are_judged_by_what_the_name_server_was_at_them() -> None:
    """Equal answers before and after its configuration changed are two."""
    namesrv = replace(V5, later=((seq_at(300), Namesrv(V5_4_0, NamesrvConfig(enable_all_topic_list=False))),))
    found = verified(
        Server(carried=[broker("TU")]), listed(100, "a", LISTED), listed(400, "b", LISTED), namesrv=namesrv
    )
    assert (checks(found)[206]["matched"], found["route_mismatches"]["expected"].to_pylist()) == (1, ["disable"])
    # Between the request that changed it and the response to that, answers may show either.
    changed = asked_to(300, "c", 318, received_ms=250, response_fields="{}")
    server = Server((300, "c", events.UpdateNamesrvConfig("enableAllTopicList=false")), carried=[broker("TU")])
    said = (
        listed(200, "a", LISTED),
        {**listed(260, "b", None), "response_code": 1, "remark": "disable"},
        listed(255, "c", LISTED),
    )
    found = verdicts(given_of(server, {"route_observations": said, "admin_events": [changed]}, namesrv))
    assert checks(found)[206] == {"answers": 3, "matched": 3, "same_order": 3, "same_bytes": 3, "in_flight": 1}


@pytest.mark.slow
def test_maps_are_in_the_order_of_a_fresh_process_after_a_stop() -> None:
    """A process that held hundreds of brokers stops: the start, which then changes nothing, makes its maps small again."""
    many = [(number, f"r{number}", broker("TU", f"many-{number}")) for number in range(400)]
    life: list[tuple[float, str, events.Event]] = [(410, "e", events.NamesrvStopped()), (420, "s", STARTED)]
    # Of 256 buckets these two are in other order than of 1,024.
    server = Server(*many, *life, (430, "n", broker("TU", "Ta")), (440, "m", broker("TU", "Xa")))
    said = answered(450, "a", 106, None, answers_of(server.registry)[Question(106)].body, request_seq=seq_at(449))
    assert checks(verified(server, said))[106] == {"answers": 1, "matched": 1, "same_order": 1, "same_bytes": 1}


STARTED = events.NamesrvStarted()
STEPS = st.lists(
    st.tuples(
        st.integers(1, 40),
        st.sampled_from(
            [broker("TU"), broker("T", counter=2), broker("UV", "broker-b"), events.DeleteTopic("T", None), STARTED]
        ),
        st.integers(0, 30),
    ),
    max_size=6,
    unique_by=lambda told: told[0],
)
ASKED = [Question(206), Question(106), Question(105, "T"), Question(105, "V"), Question(101, "k", scope="N")]
ANSWERS = st.lists(
    st.tuples(st.sampled_from(ASKED), st.integers(1, 45), st.integers(0, 8), st.integers(0, 6)), min_size=1, max_size=40
)


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(STEPS, ANSWERS)
@example([(1, STARTED, 0)], [(Question(206), 1, 0, 0)])  # a start behind which nothing changes
def test_judging_equal_answers_once_changes_no_verdict(
    steps: list[tuple[int, events.Event, int]], asked: list[tuple[Question, int, int, int]]
) -> None:
    """Answers from any state, right and wrong, under way or not: the rows are those of judging each by itself."""
    server, states = Server(), [answers_of(Registry(V5_4_0))]
    sent = []
    for ms, event, late in sorted(steps, key=lambda told: told[0]):
        server.take(ms, f"e{ms}", event)
        states.append(answers_of(server.registry))
        sent.append(registered(ms, f"e{ms}", received_ms=ms - late))
    answers = []
    for number, (question, ms, waited, state) in enumerate(asked):
        said = states[state % len(states)][question]
        told: Row = {"response_code": said.code, "remark": said.remark, "scope": question.scope}
        told |= {"request_seq": seq_at(ms - waited)}
        answers.append(answered(ms, f"a{number}", question.code, question.subject, said.body, **told))
    day = given_of(server, {"registrations": sent, "route_observations": answers})
    once = verdicts(day)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify._Verifier, "_versions", lambda _self, _asked, answered: np.full_like(answered, -1))
        each = verdicts(day)
    for ones, others in zip(once.values(), each.values(), strict=True):
        assert sorted(map(str, ones.to_pylist())) == sorted(map(str, others.to_pylist()))


def answers_of(registry: Registry) -> dict[Question, Any]:
    return {question: answer(registry, question, V5) for question in ASKED}
