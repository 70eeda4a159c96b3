"""Rows of topicQueueTable that lie elsewhere are there for whoever asks, and come once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from namesrv_core import PROFILES, Profile, Registry
from namesrv_core.machine.registry import Change
from namesrv_core.machine.tables import QueueData, TopicConfig, TopicQueueTable, TopicTable

ONE, TWO = QueueData(4, 4, 6, 0), QueueData(8, 8, 6, 0)
ROWS = {"a": {"T": ONE, "U": TWO}, "b": {"T": TWO}, None: {"V": ONE}}


class Elsewhere:
    """Rows by broker name; `asked` are the names whose rows came, in order."""

    def __init__(self) -> None:
        self.left = {name: dict(rows) for name, rows in ROWS.items()}
        self.asked: list[str | None] = []

    def names(self, topic: str | None = None) -> Iterable[str | None]:
        """See `UnmetRows`."""
        return [name for name, rows in self.left.items() if topic is None or topic in rows]

    def of_name(self, broker_name: str | None) -> Iterable[tuple[str | None, QueueData]]:
        """See `UnmetRows`."""
        rows = self.left.pop(broker_name, {})
        self.asked += [broker_name] * bool(rows)
        return rows.items()


@pytest.fixture(params=["4.9.7", "5.4.0"])
def profile(request: pytest.FixtureRequest) -> Profile:
    """Give a generation."""
    return PROFILES[request.param]


def tables(profile: Profile) -> tuple[TopicQueueTable, TopicQueueTable, Elsewhere]:
    """Return a table that holds all rows, one that they are kept from, and where they are kept."""
    whole, lazy, elsewhere = Registry(profile), Registry(profile), Elsewhere()
    rows = (((topic, name), data) for name, of in ROWS.items() for topic, data in of.items())
    whole.apply([Change("topic_queue_table", key, data) for key, data in rows], 0)
    lazy.topic_queue_table.begin_with(elsewhere, {})
    return whole.topic_queue_table, lazy.topic_queue_table, elsewhere


@pytest.mark.parametrize(
    ("ask", "asked"),
    [
        (lambda table: table.row(("U", "a")), ["a"]),
        (lambda table: table.row(("T", "nobody")), []),
        (lambda table: table.names_of_topic("T"), ["a", "b"]),
        (lambda table: sorted(table.topics_of_name("a")), ["a"]),
        (lambda table: list(table.keys_of_rows()), ["a", "b", None]),
        (lambda table: table.has_topics("b", TopicTable([TopicConfig("T", *TWO)])), ["b"]),
    ],
    ids=["row", "no_row", "names_of_topic", "topics_of_name", "keys_of_rows", "has_topics"],
)
def test_who_asks_is_answered_as_if_they_were_there(
    ask: Callable[[TopicQueueTable], object], asked: list[str | None], profile: Profile
) -> None:
    """Only those of the broker names that are asked for come, each once, however often one asks."""
    whole, lazy, elsewhere = tables(profile)
    assert ask(lazy) == ask(whole) == ask(lazy)
    assert elsewhere.asked == asked


def test_a_change_finds_what_was_there(profile: Profile) -> None:
    """The last row of a topic takes the topic with it, also where the others came a moment ago."""
    whole, lazy, elsewhere = tables(profile)
    for table in (whole, lazy):
        table.change(("U", "a"), None, 0)
        table.change(("T", "a"), TWO, 0)
    assert elsewhere.asked == ["a"]
    assert list(lazy.keys_of_rows()) == list(whole.keys_of_rows())
    assert [lazy.row(key) for key in whole.keys_of_rows()] == [whole.row(key) for key in whole.keys_of_rows()]


def test_who_has_all_topics_of_a_table_is_not_asked_for_rows(profile: Profile) -> None:
    """What is told to be complete is believed, until something of it goes."""
    _, lazy, elsewhere = tables(profile)
    told = TopicTable([TopicConfig("T", *TWO)])
    lazy.begin_with(elsewhere, {"b": told})
    assert lazy.has_topics("b", told)
    assert elsewhere.asked == []
    lazy.change(("T", "b"), None, 0)
    assert not lazy.has_topics("b", told)
