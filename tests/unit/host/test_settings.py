"""Keys and budgets have one place, whatever the current directory is."""

from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

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


WITHOUT_A_HOME = pytest.mark.parametrize("environment", [{}, {"HOME": ""}, {"HOME": "ada"}])


@WITHOUT_A_HOME
def test_without_a_home_it_is_that_of_the_account(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    account = SimpleNamespace(pw_dir="/people/ada")
    monkeypatch.setattr("pwd.getpwuid", lambda _: account)
    found = Settings.from_environment(environment)
    assert found.config_home == Path("/people/ada/.config/threegate")


@WITHOUT_A_HOME
def test_without_a_home_nothing_lies_in_the_current_directory(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(uid: int) -> NoReturn:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    found = Settings.from_environment(environment)
    assert found.config_home == Path("/.config/threegate")
    assert found.config_home.is_absolute()
