"""What is known behind lines of a name server's log; what they change: `scenarios/logged.txt`."""

from __future__ import annotations

from namesrv_core import V4_9_7, Namesrv, Registry, take
from namesrv_core.machine.events import ChangeLogged, LoggedRow
from namesrv_core.machine.past import Past
from namesrv_core.machine.tables import QueueData


def test_what_a_line_shows_is_known_and_its_beginning_only_where_it_says_so() -> None:
    """A row that is new by the line was not there before; of another one it is open since when it was as it is."""
    registry, queues = Registry(V4_9_7), QueueData(4, 4, 6, 0)
    registry.past = past = Past(0)
    new, old = (LoggedRow("topic_queue", topic, "b", queues, is_new) for topic, is_new in (("X", True), ("Y", False)))
    master = LoggedRow("broker_addr", "e", None, ("C", "6.6.6.6:6"), is_new=True)
    step = take(registry, ChangeLogged("register_broker", (new, old, master)), 1_000, Namesrv(V4_9_7))
    assert past.is_logged
    assert past.knows("topic_queue", "X", "b")
    assert past.knows("topic_queue", "Y", "b")
    assert past.knows("broker_addr", "e", 0)
    assert not past.knows("topic_queue", "Z", "b")
    assert step.certainty is not None
    assert step.certainty.begun == {("topic_queue", ("X", "b")), ("broker_addr", ("e", 0))}
    assert step.certainty.known == {*step.certainty.begun, ("topic_queue", ("Y", "b"))}
