"""The table unregistrations: one UNREGISTER_BROKER (104)."""

from __future__ import annotations

from schemas.recorded import BROKER, BROKER_RULES, FIELDS_ARE_READ, REQUEST, REQUEST_RULES, code_of, events

UNREGISTRATIONS = events(
    "unregistrations",
    "one UNREGISTER_BROKER (104)",
    *REQUEST,
    *BROKER,
    rules=(*REQUEST_RULES, FIELDS_ARE_READ, *BROKER_RULES, code_of("unregistrations")),
)
