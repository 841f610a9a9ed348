"""The whole session in a real browser, with every real part: fetch to report."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.support import models
from tests.support.boxes import repository
from tests.support.console import PICTURES
from tests.support.console_day import PLAYED
from tests.support.internet_place import Place, place_at, settle
from tests.support.origins import scholarly

SECONDS = 3000.0


def lived(place: Place, model: str, cache: str = "") -> Path:
    """Spend a day in the console; return the user's home."""
    cli = settle(place, place.directory / "home")
    pictures = place.directory / "pictures"
    words = ["-m", "tests.support.console_day", str(cli.base), str(pictures), model, cache]
    env = {**cli.env(), "PYTHONPATH": str(repository())}
    done = place.run([sys.executable, *words], env=env, cwd=cli.base, seconds=SECONDS)
    if pictures.is_dir():
        shutil.copytree(pictures, PICTURES, dirs_exist_ok=True)
    assert done.code == 0, done.err
    assert cli("audit", "verify", "--json").json["ok"]
    return cli.base


def test_a_day_from_fetch_to_report() -> None:
    """The model is played by a server of the test behind the real bridge: what it drafts runs."""
    with place_at(scholarly.WORLD) as place:
        lived(place, PLAYED)
        seen = {one.get("host") for one in place.arrived()}
        assert "api.crossref.org" in seen, "it was fetched from the far side"


@pytest.mark.slow
def test_a_day_with_the_model_of_the_policy() -> None:
    models.default()
    with place_at(scholarly.WORLD) as place:
        lived(place, models.DEFAULT, str(models.model_cache().parents[1]))
