"""Time zones are loaded by name, also on systems without a time zone database."""

from __future__ import annotations

from datetime import UTC

import pytest

from shared.core.dates import load_time_zone
from shared.core.errors import InvalidInput
from shared.core.settings import Settings


def test_a_time_zone_is_loaded_by_name() -> None:
    assert str(load_time_zone("Europe/Berlin")) == "Europe/Berlin"


def test_utc_needs_no_database_of_time_zones() -> None:
    assert load_time_zone("UTC") is UTC


@pytest.mark.parametrize(
    "name", ["", "Berlin", "America", "europe/berlin", "..", "/etc/localtime", "a\0b", "\ud800"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a time zone of the IANA database"):
        load_time_zone(name)


def test_the_time_zone_setting_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIME_ZONE", "Europe/Berlin")
    assert Settings().time_zone == "Europe/Berlin"
    monkeypatch.setenv("TIME_ZONE", "Berlin")
    with pytest.raises(InvalidInput, match="not a time zone of the IANA database"):
        Settings()
