"""The request layer against the real request processors, request by request."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from namesrv_core.inference.settings import change_text, lines_of, shown_text
from namesrv_core.machine.codes import RequestCode, ResponseCode
from namesrv_wire.protocol.frames import Frame
from tests.examples import great
from tests.oracle.jvm import JvmUnavailableError
from tests.oracle.oracle import VERSIONS, Oracle, request
from tests.oracle.request_makers import CHANNELS, Made, Maker
from tests.record.driven import Driven
from tests.wire import forge
from tools.trace.trace import Trace
from tools.trace.trace_state import StateText

pytestmark = [pytest.mark.slow, pytest.mark.jvm]

SESSIONS, REQUESTS = 10, 200
CONFIGS: dict[str, list[str]] = {
    "4.9.7": ["orderMessageEnable"],
    "5.4.0": [
        *("orderMessageEnable", "supportActingMaster", "deleteTopicWithBrokerRegistration"),
        *("returnOrderTopicConfigToBroker", "enableTopicList", "enableAllTopicList"),
    ],
}


@pytest.fixture(scope="module", params=VERSIONS)
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    try:
        real = Oracle(request.param, is_brief=True)
    except JvmUnavailableError as error:
        pytest.skip(str(error))
    with closing(real):
        yield real


class Session:
    """One name server's life on our side: the events for the real one, and what ours answers to each."""

    def __init__(self, version: str, seed: int) -> None:
        choose = random.Random(seed)
        self.maker = Maker(seed)
        self.version = version
        self.trace, self.served, self.at_ms = Trace(), Driven(version), 1_700_000_000_000
        channels = {channel: f"10.0.9.{n}:5000{n}" for n, channel in enumerate(CHANNELS)}
        config = {name: choose.random() < 0.5 for name in CONFIGS[version]}
        init = {"op": "init", "profile": version, "t_ms": self.at_ms, "config": config, "channels": channels}
        self.events: list[dict[str, Any]] = [init]
        self.made: list[Made | None] = [None]
        self.answers: list[Frame | None] = [None]
        self.hashes: list[str] = []
        self.trace.take(init)
        self._note()

    def run(self, requests: int) -> None:
        """Make and answer requests, with lost channels, scans and batches in between."""
        choose = self.maker.random
        for _ in range(requests):
            self.at_ms += choose.choice((1, 10, 1_000, 5_000))
            self._ask(self.maker.request())
            if self._nameless():
                self._direct({"op": "restart"})
            if choose.random() < 0.05:
                self._direct({"op": "channel_destroy", "ch": choose.choice(CHANNELS)})
            if choose.random() < 0.03:
                self._direct({"op": "scan"})
            if self.version == "5.4.0" and choose.random() < 0.2:
                self._direct({"op": "drain"})

    def _nameless(self) -> bool:
        """Return whether a group has no name or a member no address.

        The registration that makes it so is compared. What the real one does later with the null that it left (searches
        and lists end where they meet it) is not followed: the server is started anew.
        """
        registry = self.trace.registry
        groups = registry.broker_addr_table
        addrs = [addr for group in groups.values() for addr in group.addr_of.values()]
        names = [name for members in registry.cluster_addr_table.values() for name in members]
        return None in {*groups, *names, *addrs}

    def _ask(self, made: Made) -> None:
        data = forge.request(made.code, made.ext, made.body or b"", version=made.version)
        # The real batch thread is not running either: an unregistration waits until something drains the queue.
        of, defers = (self.trace.registry, self.trace.namesrv), self.version == "5.4.0"
        answered = self.served.ask(data, self.at_ms, made.channel, of, defers=defers)
        event = request(self.at_ms, made.code, made.ext, made.body, ch=made.channel, version=made.version)
        self._note(event, made, answered)

    def _direct(self, event: dict[str, Any]) -> None:
        event = {**event, "t_ms": self.at_ms}
        self.trace.take(event)
        self._note(event)

    def _note(self, event: dict[str, Any] | None = None, made: Made | None = None, answer: Frame | None = None) -> None:
        if event is not None:
            self.events.append(event)
            self.made.append(made)
            self.answers.append(answer)
        self.hashes.append(StateText(self.trace.registry).digest())


def difference(ours: Frame | None, wire: dict[str, Any], code: int) -> str | None:
    """Return what differs between our answer and the real one; None if nothing does."""
    if "response" in wire or ours is None:
        return None if ours is None and "response" in wire else "one side does not answer"
    if code == RequestCode.UPDATE_NAMESRV_CONFIG:  # which ours always refuses
        return None if ours.code == ResponseCode.NO_PERMISSION else "a configuration from the network"
    if "exception" in wire:
        # The remoting layer would answer SYSTEM_ERROR with the exception's text.
        return None if ours.code == ResponseCode.SYSTEM_ERROR and not ours.body else "one side throws"
    if ours.code != wire["code"] or ours.remark != wire["remark"]:
        return "code or remark"
    if ours.ext != wire["ext"]:
        return "header fields"
    same = (ours.body.decode() if ours.body else None) == wire["body"]
    return None if same or code == RequestCode.GET_NAMESRV_CONFIG else "body"


class Configured:
    """What is known of the configuration by what is kept of the requests and answers of a session."""

    def __init__(self) -> None:
        self.known, self.answers = dict[str, str](), 0

    def differs(self, event: dict[str, Any], made: Made | None, wire: dict[str, Any] | None) -> bool:
        """Take a request and its answer; return whether that shows another configuration."""
        if event["op"] == "restart":
            self.known = {}
        elif made is not None and wire is not None and wire.get("code") == ResponseCode.SUCCESS:
            if made.code == RequestCode.UPDATE_NAMESRV_CONFIG and made.body:
                told = lines_of(change_text(made.body.decode("utf-8", "replace")), changes=True)
                # Passed over is what the server has not, and what is no number where it has one.
                held = {name: value for name, value in told.items() if name in self.known}
                taken = [n for n, value in held.items() if value[:1] != "#" or self.known[n][:1] == "#"]
                self.known |= {name: told[name] for name in taken}
            elif made.code == RequestCode.GET_NAMESRV_CONFIG:
                before, self.known = self.known, lines_of(shown_text(wire["body"]), changes=False)
                self.answers += before == self.known
                return bool(before) and [*before.items()] != [*self.known.items()]
        return False


@pytest.mark.parametrize("block", range(great(10)))
def test_random_requests_are_answered_as_by_the_real_processors(oracle: Oracle, block: int) -> None:
    """Code, remark, header fields, body text and the state afterwards are the real ones, for each of 2,000 requests.

    Among them: odd protocol versions, missing and unreadable fields, wrong checksums, undecodable bodies, unknown codes. What
    is kept of changes of the configuration foretells what is kept of the answers that show it.
    """
    found, shown = [], 0
    for seed in range(block * SESSIONS, (block + 1) * SESSIONS):
        session = Session(oracle.version, seed)
        session.run(REQUESTS)
        real = oracle.wire(session.events)
        configured = Configured()
        rounds = zip(session.events, session.made, session.answers, session.hashes, real, strict=True)
        for event, made, ours, hashed, theirs in rounds:
            differs = None if made is None else difference(ours, theirs["wire"], made.code)
            if differs is None and hashed != theirs["h"]:
                differs = "state"
            if configured.differs(event, made, theirs.get("wire")):
                differs = "configuration"
            if differs is not None:
                found.append((seed, differs, made, ours, theirs))
                break
        shown += configured.answers
    assert not found, found[0]
    assert shown
