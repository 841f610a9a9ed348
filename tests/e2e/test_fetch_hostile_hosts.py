"""Listed hosts that do everything wrong, through the whole of `threegate fetch`.

`tests/escape/test_fetch_retrieve.py` judges each attack by its reason; here is the whole run:
what it tells the operator, what it writes down, and whom it met.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import pytest

from tests.support.cli import Done
from tests.support.fetches import Event, names_met, packets
from tests.support.internet_place import PlaceCli, place_at, settle
from tests.support.origin import INSIDE, OTHER
from tests.support.origins import hostile
from tests.support.origins.hostile import BAD_CERTIFICATES, HOST, INNER, SECOND, UNLISTED

RULES = (
    "\nhosts:\n",
    """
hosts:
  "*.hostile.org":
    rate_per_minute: 6000
    concurrency: 8
    bytes_per_day: 64GiB
    response_bytes: 1MiB
    content_types: [application/json, application/pdf, text/html]
    credential: none

""",
)
DEADLINE = ("deadline_seconds: 90s", "deadline_seconds: 5s")
ORDINARY = f"https://{HOST}/record"
LEADING = (f"https://{UNLISTED}/", f"https://{INNER}/", f"http://{HOST}/", "file:///etc/passwd")
URLS = [
    *(f"https://{HOST}{path}" for path in (*hostile.WORDS, *hostile.STREAMS, *hostile.ANSWERS)),
    *(f"https://{HOST}/redirect?to={quote(url, safe='')}" for url in LEADING),
    *(f"https://{HOST}/{kind}/1" for kind in ("chain", "circle")),
    *(f"https://{name}/record" for name in (INNER, *BAD_CERTIFICATES)),
]


@dataclass(frozen=True)
class Run:
    """One run over everything."""

    cli: PlaceCli
    done: Done
    seen: list[Event]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with place_at(hostile.WORLD) as place:
        cli = settle(place, place.directory / "home", RULES, DEADLINE)
        done = cli("fetch", *URLS, code=None)
        yield Run(cli, done, place.seen())


@pytest.mark.slow
def test_every_attack_ends_in_one_line_with_its_reason(run: Run) -> None:
    made, lines = packets(run.cli), run.done.out.splitlines()
    assert ORDINARY in made, "control: the same host is fetched from when it behaves"
    for url in URLS:
        (line,) = [line for line in lines if re.search(rf" {re.escape(url)}(: | TEST)", line)]
        told = "made rp-" if url in made else r"(failed|refused) TG-[A-Z]{3}-[0-9]{3} "
        assert re.match(told, line), line
    assert "Traceback" not in run.done.err
    assert run.cli("audit", "verify").out.startswith("verified: ")


@pytest.mark.slow
def test_over_the_whole_run_nobody_else_was_met(run: Run) -> None:
    met = names_met(run.seen)
    assert {HOST, INNER, *BAD_CERTIFICATES} <= met, "control: these were looked up"
    assert met <= {HOST, SECOND, INNER, *BAD_CERTIFICATES, "ipv4only.arpa"}
    assert not {INSIDE, OTHER} & {event.get("origin") for event in run.seen}
    asked = {event["host"] for event in run.seen if event["event"] == "request"}
    assert asked == {HOST}
