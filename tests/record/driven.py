"""The requests of `record --listen` without its sockets, its clock and its scans."""

from __future__ import annotations

from pathlib import Path

from jobs.record.properties import properties_of
from jobs.record.service import Channel, Service
from namesrv_core.machine import events
from namesrv_core.machine.events import NS_PER_MS
from namesrv_core.machine.profile import Namesrv, profile_named
from namesrv_core.machine.registry import Registry, Step
from namesrv_wire.codes import VERSION_NAMES
from namesrv_wire.protocol.frames import Frame, decode_frame


class Driven(Service):
    """A name server that is asked at instants that a test says, on a registry that the test changes beside it."""

    def __init__(self, release: str) -> None:
        properties = properties_of(profile_named(release), None, ("127.0.0.1", 9_876), Path("kv.json"))
        super().__init__(properties, VERSION_NAMES.index(release), "127.0.0.1:9876", 0)
        self._at_ns, self._defers = 0, False

    def ask(
        self,
        data: bytes,
        at_ms: int,
        channel_id: str | None = None,
        of: tuple[Registry, Namesrv] | None = None,
        *,
        defers: bool = False,
    ) -> Frame | None:
        """Return the answer to a frame; None: there is none. `of`: on which registry; `defers`: unregistrations wait there."""
        if of is not None:
            self.registry, self.namesrv = of
        self._at_ns, self._defers = at_ms * NS_PER_MS, defers
        self._answers.clear()
        answered = self.take(data, Channel(channel_id, "10.0.9.9:1"))  # type: ignore[arg-type]  # a trace may name none
        return None if answered is None else decode_frame(answered)

    def pass_time(self) -> float:
        """Let no scan come by itself."""
        return 0

    def _slot(self) -> int:
        return self._at_ns

    def _apply(self, event: events.Event, at_ms: int) -> Step:
        if self._defers and isinstance(event, events.UnregisterBroker):
            event = event._replace(defer=True)
        return super()._apply(event, at_ms)
