"""Scenarios as text.

Commands in RocketMQ's words, `----`, then what each returned and the tables after the last of them.

A file in `scenarios/` starts with a comment that says what it shows and a line `namesrv VERSION [property=value ...]`. Blocks
are separated by blank lines; the name server lives on from block to block. `python -m pytest tests/core --rewrite` writes what
comes out now; commit that only if you know why it changed and if it is what RocketMQ does.

Commands and their fields (defaults in brackets; times in milliseconds, `at` [of the command before]; `null` is no name, and
nothing behind = an empty one):

    register            name id [0] addr cluster [C] version [ts:counter[:state]; 1:1] topics [T/4/4/6,...; none] null: no table
                        channel [as addr] ha filters [absent; "none": an empty list] acting zone timeout
                        mapping [topic/bname/epoch]; refused=true: the answer says so
    unregister          name id addr cluster          (5.4.0: defer=true only queues it; `drain` applies what is queued)
    heartbeat           addr cluster
    query_data_version  addr cluster version
    scan
    channel_destroy     channel remote
    wipe_write_perm, add_write_perm    name
    delete_topic        topic cluster [whole topic]
    register_topic      topic queues [name/4/4/6,...]
    put_kv_config       namespace key value           delete_kv_config    namespace key
    refused_request     reason
    start, stop
    answered COMMAND    what the request is answered
    route               topic dialect [standard; old] (also cluster_info, topic_list, kv_list and more: `QUESTIONS`)

Scans in between, where a timer runs; events are then replayed together at `----`, and each says when it was:

    timer               begin [0] set [begin] phase of the ticks, if known; a further one is the next process
    close               at: a packet that a scan has sent
    until               at: the end of what is known, exclusive

Of a name server whose past is not recorded:

    unknown             the recording begins here; hears=false: of answers alone
    gap                 until                         nothing was recorded until then
    truth COMMAND       what really happened, of which only answers are seen; `truth` alone: nothing
    see QUESTION        asked [at once] code          the true answer to it is seen, or one of this code without a body
    told COMMAND        a request is seen, and the true response to it
    same QUESTION       whether the name server, as far as it is known, would answer as the true one
    knows               whether each of these rows, KIND/KEY/KEY, is known: of a key `*` is any, `-` none
    doubt, certain      makes such rows doubtful, or known
    logged OPERATION    lines of its own log show such rows gone, or put: `=` and a master's CLUSTER,ADDRESS, a KV value or nothing
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from namesrv_core import Answer, Namesrv, NamesrvConfig, Question, Registry, Step, answer, step, take
from namesrv_core.asking.answers import answer_to
from namesrv_core.machine import events
from namesrv_core.machine.past import ANY, Entity, Mark, Part, Past
from namesrv_core.machine.profile import profile_named
from namesrv_core.machine.schedule import ScanEpoch, ScanSchedule
from namesrv_core.machine.step import QueryDataVersionResult, RegisterResult, apply_step
from namesrv_core.machine.tables import (
    BrokerLiveInfo,
    DataVersion,
    KvValue,
    QueueData,
    TopicConfig,
    TopicQueueMappingInfo,
    TopicTable,
)
from namesrv_core.replay.loop import TimedEvent, replay

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
Fields = Mapping[str, str]
QUESTIONS: Mapping[str, tuple[int, str, str]] = {  # code, and the fields that are its subject and its scope
    "route": (105, "topic", "zone"),
    "cluster_info": (106, "", ""),
    "topic_list": (206, "", ""),
    "topics_by_cluster": (224, "cluster", ""),
    "system_topics": (304, "", ""),
    "unit_topics": (311, "", ""),
    "unit_sub_topics": (312, "", ""),
    "unit_sub_ununit_topics": (313, "", ""),
    "member_group": (901, "name", "cluster"),
    "kv_get": (101, "key", "namespace"),
    "kv_list": (219, "namespace", ""),
}
MS = 1_000_000


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_comes_out_as_written(path: Path, *, rewrite: bool) -> None:
    """The commands of the file give the outcomes and tables that stand below them."""
    written = path.read_text(encoding="utf-8")
    played = play(written)
    if rewrite:
        path.write_text(played, encoding="utf-8")
    else:
        assert played == written


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_says_what_it_shows(path: Path) -> None:
    """The first line is a sentence for the reader."""
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ")
    assert first.endswith(".")


def play(text: str) -> str:
    """Return the scenario with what comes out below each `----`."""
    story = Story()
    out, results, skipping = [], list[str](), False
    for line in text.splitlines():
        if skipping and line:
            continue
        skipping = False
        out.append(line)
        if line == "----":
            out += [*results, *story.replayed(), *story.tables()]
            results, skipping = [], True
        elif line and not line.startswith("#"):
            results += story.tell(line)
    return "\n".join(out) + "\n"


class Story:
    """One name server and its clock. `truth`: what it really holds, where its past is not recorded."""

    def __init__(self) -> None:
        self.at_ms = 0
        self.become(Namesrv())

    def become(self, namesrv: Namesrv) -> None:
        """Begin anew."""
        self.namesrv = namesrv
        self.registry, self.truth = Registry(namesrv.profile), Registry(namesrv.profile)
        self.processes, self.closes = list[ScanEpoch](), list[int]()
        self.pending, self.since_ns = list[tuple[int, str, events.Event]](), 0
        self.until_ns: int | None = None

    def tell(self, line: str) -> list[str]:
        """Carry out one command and return what it gave."""
        command, *words = line.split()
        if command == "namesrv":
            version, *properties = words
            given = (one.split("=") for one in properties)
            config: dict[str, Any] = {_snake(name): _switch_or_number(value) for name, value in given}
            self.become(Namesrv(profile_named(version), NamesrvConfig(**config)))
            return []
        if command == "knows":
            return [f"knows {word}: {self.knows(*_entity(word))}" for word in words]
        if command == "truth":
            if words:
                take(self.truth, EVENTS[words[0]](fields_of(words[1:])), 0, self.namesrv)
            else:
                self.truth = Registry(self.namesrv.profile)
            return []
        if command in _OF_TRUTH or command in ("doubt", "certain", "logged"):
            return self.look(command, *words)
        is_answered = command == "answered"
        command = words.pop(0) if is_answered else command
        fields = fields_of(words)
        if command in ("timer", "close", "until") or (self.processes and command in EVENTS):
            return self.plan(command, fields)
        self.at_ms = int(fields.pop("at", self.at_ms))
        if command in QUESTIONS:
            return [f"{command}: {shown(answer(self.registry, question_of(command, fields), self.namesrv))}"]
        event = EVENTS[command](fields)
        if is_answered:
            taken = step(self.registry, event, self.at_ms, self.namesrv)
            apply_step(self.registry, event, taken, self.at_ms, self.namesrv)
            return [f"answered {command}: {shown(answer_to(event, taken, self.registry, self.namesrv))}"]
        taken = take(self.registry, event, self.at_ms, self.namesrv)
        return [f"{command}: {' '.join([taken.outcome.value, *told(taken)])}"]

    # -- scans in between ----------------------------------------------------------------------------------------------

    def plan(self, command: str, fields: dict[str, str]) -> list[str]:
        """Note what is replayed at the end of the block."""
        at_ns = round(float(fields.pop("at", self.at_ms)) * MS)
        self.at_ms = at_ns // MS
        if command == "timer":
            begin_ms, phase = float(fields.get("begin", 0)), fields.get("phase")
            set_ms = float(fields.get("set", begin_ms))
            phase_us = None if phase is None else int(phase) * 1_000
            self.processes.append(ScanEpoch(round(begin_ms * MS), round(set_ms * MS), phase_us))
        elif command == "close":
            self.closes.append(at_ns)
        elif command == "until":
            self.until_ns = at_ns
        else:
            self.pending.append((at_ns, command, EVENTS[command](fields)))
        return []

    def replayed(self) -> list[str]:
        """Replay what was planned, with the scans of the timer in between."""
        if not self.processes:
            return []
        schedule = ScanSchedule(self.processes, self.namesrv.scan_period_ms, self.closes)
        planned = {f"{number:04}": of for number, of in enumerate(self.pending)}
        log = [TimedEvent(at_ns, event_id, at_ns // 1_000, event) for event_id, (at_ns, _, event) in planned.items()]
        lines = []
        for timed, taken in replay(self.registry, log, self.namesrv, schedule, span=(self.since_ns, self.until_ns)):
            name = planned[timed.event_id][1] if timed.event_id in planned else "tick"
            at = f"{timed.seq / MS:.6f}".rstrip("0").rstrip(".")
            lines.append(f"{at} {name}: {' '.join([taken.outcome.value, *told(taken)])}")
        # What has run stands before the end; a tick at it is the next part's.
        self.pending, self.since_ns, self.until_ns = [], (self.until_ns or self.at_ms * MS) - 1, None
        return lines

    # -- an unknown past -----------------------------------------------------------------------------------------------

    def look(self, command: str, *words: str) -> list[str]:
        """Carry out a command that holds what is known of a past against the truth."""
        if command in ("doubt", "certain"):
            self.past.note([Mark(Entity(*_entity(word)), known=command == "certain") for word in words])
            return []
        if command == "logged":
            logged = events.ChangeLogged(words[0], tuple(_logged(word) for word in words[1:]))
            return [f"logged: {take(self.registry, logged, self.at_ms, self.namesrv).outcome.value}"]
        fields = fields_of(words if command == "unknown" else words[1:])
        self.at_ms = int(fields.pop("at", self.at_ms))
        if command == "unknown":
            self.registry.past = Past(self.at_ms)
            if fields.get("hears") != "false":
                self.registry.past.last_effect_ms = self.at_ms
            return []
        if command == "told":
            return self._told(words[0], EVENTS[words[0]](fields))
        question = question_of(words[0], fields)
        true = answer(self.truth, question, self.namesrv)
        true = Answer(int(fields["code"]), None) if "code" in fields else true
        if command == "same":
            return [f"same {words[0]}: {answer(self.registry, question, self.namesrv) == true}"]
        seen = events.AnswerObserved(question, true, int(fields.get("asked", self.at_ms)) * MS)
        taken = take(self.registry, seen, self.at_ms, self.namesrv)
        return [f"see {words[0]}: {taken.outcome.value}{' (it teaches)' if taken.result else ''}"]

    def _told(self, command: str, event: Any) -> list[str]:
        taken = step(self.truth, event, self.at_ms, self.namesrv)
        true = answer_to(event, taken, self.truth, self.namesrv)
        take(self.registry, event, self.at_ms, self.namesrv)
        seen = take(self.registry, events.ResponseObserved(event, true), self.at_ms, self.namesrv)
        return [f"told {command}: {seen.outcome.value}{' (it corrects)' if seen.changes else ''}"]

    @property
    def past(self) -> Past:
        """Return what is known of the past."""
        assert self.registry.past is not None
        return self.registry.past

    def knows(self, kind: str, one: Part, other: Part) -> bool:
        """Return whether a row is known, or all rows of a key."""
        return self.past.knows_all(kind, one) if other is ANY else self.past.knows(kind, one, other)

    def tables(self) -> list[str]:
        """Return all rows, in the order in which the name server would meet them."""
        registry, lines = self.registry, []
        for cluster, names in registry.cluster_addr_table.java_items():
            lines.append(f"cluster_addr_table   {cluster}  {{{', '.join(map(str, names.java_keys()))}}}")
        for name, group in registry.broker_addr_table.java_items():
            addrs = ", ".join(f"{broker_id}: {addr}" for broker_id, addr in group.java_addrs())
            flags = (" acting" if group.enable_acting_master else "") + (
                f" {group.zone_name}" if group.zone_name else ""
            )
            lines.append(f"broker_addr_table    {name}  {group.cluster_name}  {{{addrs}}}{flags}")
        for topic, queue_datas in registry.topic_queue_table.java_items():
            for name, data in queue_datas.java_items():
                queues = f"r={data.read_queue_nums} w={data.write_queue_nums} perm={data.perm}"
                flag = f" sys={data.topic_sys_flag}" if data.topic_sys_flag else ""
                lines.append(f"topic_queue_table    {topic}  {name}  {queues}{flag}")
        for key, live in registry.broker_live_table.java_items():
            version = live.data_version
            shown = "null" if version is None else f"{version.timestamp}:{version.counter}"
            state = f":{version.state_version}" if version and self.namesrv.profile.has_state_version else ""
            until = registry.last_update_ms[key] + live.lease_ms
            lines.append(
                f"broker_live_table    {named(key)}  version={shown}{state} channel={live.channel_id} "
                f"lives_until={until}"
            )
        for key, servers in registry.filter_server_table.java_items():
            lines.append(f"filter_server_table  {named(key)}  [{', '.join(servers)}]")
        for topic, mappings in registry.topic_queue_mapping_info_table.java_items():
            lines += [
                f"topic_queue_mapping  {topic}  {bname}  epoch={mapping.epoch}"
                for bname, mapping in mappings.java_items()
            ]
        for namespace, entries in registry.kv_config_table.java_items():
            pairs = ", ".join(f"{key}: {value.text}" for key, value in entries.java_items())
            lines.append(f"kv_config_table      {namespace}  {{{pairs}}}")
        if registry.pending_unregister:
            lines.append(f"pending_unregister   {len(registry.pending_unregister)}")
        if registry.scan_halted:
            lines.append("scan_halted")
        return lines


def shown(answered: Answer) -> str:
    """Return an answer as a line: code, header fields, remark, body."""
    fields = [f"{name}={value}" for name, value in answered.fields]
    remark = [] if answered.remark is None else [answered.remark.replace("\n", "\\n") or "-"]
    return " ".join([str(answered.code), *fields, *remark, *([answered.body] if answered.body else [])])


def named(key: tuple[str | None, str | None]) -> str:
    """A live key as text: 4.x has the address only."""
    return str(key[1]) if key[0] is None else f"{key[0]}|{key[1]}"


def told(taken: Step) -> list[str]:
    """What a step returned, closed, sent, threw."""
    result, words = taken.result, []
    if isinstance(result, RegisterResult):
        words += [f"masterAddr={result.master_addr} haServerAddr={result.ha_server_addr}"] if result.master_addr else []
    elif isinstance(result, QueryDataVersionResult):
        version = result.data_version
        words.append(f"changed={str(result.changed).lower()}")
        words.append(f"stored={'null' if version is None else f'{version.timestamp}:{version.counter}'}")
    elif result is not None:
        words.append(f"result={result}")
    words += [f"closed={','.join(taken.closed)}"] if taken.closed else []
    words += [f"batch={taken.batch}"] if taken.batch is not None else []
    words += [
        f"notify={n.to}(min {n.min_broker_id} {n.min_broker_addr}, offline {n.offline_broker_addr})"
        for n in taken.notifications
    ]
    words += [f"swallowed={name.rpartition('.')[2]}" for name in taken.swallowed]
    return [*words, f"threw={taken.exception.rpartition('.')[2]}"] if taken.exception else words


def fields_of(words: Sequence[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)


def question_of(command: str, fields: Fields) -> Question:
    code, subject, scope = QUESTIONS[command]
    return Question(code, fields.get(subject), fields.get("dialect") != "old", fields.get(scope))


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def _switch_or_number(value: str) -> bool | int:
    return value == "true" if value in ("true", "false") else int(value)


def _entity(word: str) -> tuple[str, Part, Part]:
    """Return what `KIND/KEY/KEY` names; a number is an id."""
    parts: dict[str, Part] = {"*": ANY, "-": None}
    kind, one, other = word.split("/")
    return kind, parts.get(one, one), int(other) if other.isdigit() else parts.get(other, other)


def _logged(word: str) -> events.LoggedRow:
    """Return a row that a log shows; a live entry is of the broker b, and queues are four and four."""
    of, is_put, value = word.partition("=")
    kind, one, other = _entity(of)
    put = {
        "broker_addr": tuple(value.split(",")),
        "cluster_addr": True,
        "broker_live": BrokerLiveInfo(None, None, None, None, "b"),
        "topic_queue": QueueData(4, 4, 6, 0),
        "kv_config": KvValue(value),
    }
    return events.LoggedRow(kind, one, other, put[kind] if is_put else None)


def _text(fields: Fields, name: str, default: str = "null") -> str | None:
    value = fields.get(name, default)
    return None if value == "null" else value


def _version(text: str) -> DataVersion | None:
    if text == "null":
        return None
    timestamp, counter, *state = text.split(":")
    return DataVersion(int(state[0]) if state else 0, int(timestamp), None if counter == "null" else int(counter))


def _queues(text: str) -> tuple[str | None, QueueData]:
    name, *numbers = text.split("/")
    given = [int(number) for number in numbers]
    return None if name == "null" else name, QueueData(*[*given, *[4, 4, 6, 0][len(given) :]])


def _topics(fields: Fields) -> TopicTable | None:
    if fields.get("topics") == "null":
        return None
    topics = [_queues(text) for text in fields.get("topics", "").split(",") if text]
    mappings = [text.split("/") for text in fields.get("mapping", "").split(",") if text]
    return TopicTable(
        [TopicConfig(topic or "", *data) for topic, data in topics],
        [TopicQueueMappingInfo(topic, bname, 4, int(epoch)) for topic, bname, epoch in mappings],
    )


def _register(fields: Fields) -> events.RegisterBroker:
    filters = {"absent": None, "none": ()}.get(
        fields.get("filters", "absent"), tuple(fields.get("filters", "").split(","))
    )
    acting = fields.get("acting")
    return events.RegisterBroker(
        _text(fields, "cluster", "C"),
        _text(fields, "addr"),
        _text(fields, "name"),
        int(fields.get("id", 0)),
        fields.get("ha"),
        _version(fields.get("version", "1:1")),
        _topics(fields),
        filters,
        _text(fields, "channel", fields["addr"]),
        None if acting is None else acting == "true",
        int(fields["timeout"]) if "timeout" in fields else None,
        fields.get("zone"),
        is_refused=fields.get("refused") == "true",
    )


_OF_TRUTH = ("unknown", "see", "told", "same")
EVENTS: dict[str, Callable[[Fields], events.Event]] = {
    "register": _register,
    "unregister": lambda f: events.UnregisterBroker(
        _text(f, "cluster", "C"),
        _text(f, "addr"),
        _text(f, "name"),
        None if f.get("id") == "null" else int(f.get("id", 0)),
        f.get("defer") == "true",
    ),
    "drain": lambda _: events.DrainUnregistrations(),
    "heartbeat": lambda f: events.BrokerHeartbeat(_text(f, "cluster", "C"), _text(f, "addr")),
    "query_data_version": lambda f: events.QueryDataVersion(
        _text(f, "cluster", "C"), _text(f, "addr"), _version(f.get("version", "1:1"))
    ),
    "scan": lambda f: events.ScanNotActiveBroker(f.get("defer") == "true"),
    "channel_destroy": lambda f: events.ChannelDestroyed(_text(f, "channel"), _text(f, "remote")),
    "wipe_write_perm": lambda f: events.WipeWritePerm(f["name"]),
    "add_write_perm": lambda f: events.AddWritePerm(f["name"]),
    "delete_topic": lambda f: events.DeleteTopic(_text(f, "topic"), _text(f, "cluster")),
    "register_topic": lambda f: events.RegisterTopic(
        _text(f, "topic"), tuple(map(_queues, filter(None, f["queues"].split(","))))
    ),
    "put_kv_config": lambda f: events.PutKvConfig(f.get("namespace"), f.get("key"), f.get("value")),
    "delete_kv_config": lambda f: events.DeleteKvConfig(f.get("namespace"), f.get("key")),
    "refused_request": lambda f: events.RefusedRequest(f["reason"]),
    "gap": lambda f: events.RecordingGap(int(f["until"])),
    "start": lambda _: events.NamesrvStarted(),
    "stop": lambda _: events.NamesrvStopped(),
}
