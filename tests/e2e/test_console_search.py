"""Searching at a source in a real browser, on the test internet: what leaves, and when."""

import shutil
import sys
from urllib.parse import unquote_plus

from tests.support.boxes import repository
from tests.support.console import PICTURES
from tests.support.console_search import REFUSED, WORDS
from tests.support.internet_place import place_at, settle
from tests.support.origins import scholarly, works

SECONDS = 600.0


# claim TG-C-286 TG-C-287
def test_a_search_asks_one_source_and_only_what_was_ticked_is_fetched() -> None:
    with place_at(scholarly.WORLD) as place:
        cli = settle(place, place.directory / "home")
        words = [sys.executable, "-m", "tests.support.console_search", str(cli.base)]
        env = {**cli.env(), "PYTHONPATH": str(repository())}
        done = place.run(words, env=env, cwd=cli.base, seconds=SECONDS)
        pictures = cli.base / "pictures"
        if pictures.is_dir():
            PICTURES.mkdir(parents=True, exist_ok=True)
            for one in pictures.iterdir():
                shutil.copy(one, PICTURES / one.name.replace("day", "search"))
        assert done.code == 0, done.err
        asked = [one for one in place.arrived() if one["event"] == "request"]
    (host, line), *others = [(one["host"], unquote_plus(one["line"])) for one in asked]
    assert (host, f"query={WORDS}&" in line) == ("api.crossref.org", True), line
    lines = [line for _, line in others]
    hosts = {host for host, line in others if "cited_by:" in line or "/references?" in line}
    assert hosts == {"api.openalex.org", "api.semanticscholar.org"}, "control: a list was asked for"
    assert not any(str(works.SILENT.doi) in line for line in lines), "nothing of it was fetched"
    named, *unnamed = (works.RETRACTED.doi, works.ARTICLE.doi, works.SECOND_ARTICLE.doi)
    assert any(str(named) in line for line in lines), "control: what was ticked was asked for"
    assert not any(str(doi) in line for doi in unnamed for line in lines), "nothing else was"
    assert not any(REFUSED in line for line in lines), "nothing left where policy wants a yes"
