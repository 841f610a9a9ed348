"""Keys and budgets have one place, whatever the current directory is."""

from pathlib import Path

import pytest

from threegate.host.settings import Settings


def test_control_absolute_places_are_taken() -> None:
    found = Settings.from_environment(
        {"HOME": "/people/ada", "XDG_CONFIG_HOME": "/etc/xdg", "XDG_STATE_HOME": "/var/state"}
    )
    assert found.config_home == Path("/etc/xdg/threegate")
    assert found.state_home == Path("/var/state/threegate")


@pytest.mark.parametrize("named", ["", ".", "config", "../config", "~/.config"])
def test_relative_place_is_ignored(named: str) -> None:
    found = Settings.from_environment(
        {"HOME": "/people/ada", "XDG_CONFIG_HOME": named, "XDG_STATE_HOME": named}
    )
    assert found.config_home == Path("/people/ada/.config/threegate")
    assert found.state_home == Path("/people/ada/.local/state/threegate")


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}, {"HOME": "ada"}])
def test_without_a_home_nothing_lies_in_the_current_directory(environment: dict[str, str]) -> None:
    found = Settings.from_environment(environment)
    assert found.config_home == Path("/.config/threegate")
    assert found.config_home.is_absolute()
