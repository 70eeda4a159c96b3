"""Request codes and version names."""

from __future__ import annotations

import pytest

from namesrv_wire.codes import EVENT_TABLES, OBSERVED, REQUEST_NAMES, V3_0_11, V5_0_0, request_name, version_name


@pytest.mark.parametrize(
    ("ordinal", "name"),
    [
        (0, "3.0.0-SNAPSHOT"),
        (15, "3.0.0-FINAL"),
        (37, "3.0.11"),
        (407, "4.9.7"),
        (493, "5.4.0"),
        (611, "5.9.9"),
        (612, "HIGHER_VERSION"),
        (99_999, "HIGHER_VERSION"),
        (-1, "unknown"),
    ],
)
def test_version_name_counts_as_the_enum_does(ordinal: int, name: str) -> None:
    """The computed names stand at MQVersion's ordinals; numbers outside it are not guessed."""
    assert version_name(ordinal) == name


def test_thresholds_of_the_body_layouts() -> None:
    """V3_0_11 and V5_0_0 are the ordinals at which registration bodies change."""
    assert (V3_0_11, V5_0_0) == (37, 413)


def test_every_code_with_a_table_has_a_name() -> None:
    """No code becomes an event or observation without a name, and none becomes both."""
    assert set(EVENT_TABLES) | OBSERVED <= set(REQUEST_NAMES)
    assert not set(EVENT_TABLES) & OBSERVED
    assert request_name(327) == "add_write_perm_of_broker"
    assert request_name(77_777) == "request_77777"
