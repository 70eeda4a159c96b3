"""The bundled capture, read and as an event log, as the tests of nights have it."""

from __future__ import annotations

from tests.night.conftest import log_of_the_capture, read_in

__all__ = ("log_of_the_capture", "read_in")
