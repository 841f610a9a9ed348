"""What is said about a failure: what to do next, and "again" only where that may help."""

import pytest

from threegate.base.errors import ArtifactRejected
from threegate.gates.fetch.retrieve.messages import NotGot
from threegate.gates.http_library.client import Failure
from threegate.host.fetch.items import AGAIN, advice, is_refusal, unknown
from threegate.host.fetch.targets import SEARCH, FetchTarget

PASSING = {
    Failure.DEADLINE,
    Failure.UNREACHABLE,
    Failure.PROXY,
    Failure.CUT,
    Failure.BUSY,
    Failure.BROKEN,
    Failure.BUG,
    Failure.NO_NAME,
    Failure.NO_NETWORK,
}


def not_got(why: Failure, status: int | None = None) -> NotGot:
    return NotGot(why.code, why.reason, "words", None, (), status=status)


@pytest.mark.parametrize("why", [item for item in Failure if item is not Failure.NOT_ALLOWED])
def test_every_failure_has_its_advice(why: Failure) -> None:
    told = advice(not_got(why))
    assert told
    assert (AGAIN in told) == (why in PASSING)


def test_only_what_the_server_denies_is_not_our_refusal() -> None:
    assert is_refusal(not_got(Failure.LOCATION, 302)), "a redirect has a status, and we refuse it"
    assert is_refusal(not_got(Failure.TYPE, 200))
    assert not is_refusal(not_got(Failure.FORBIDDEN, 403))
    assert not is_refusal(not_got(Failure.NOT_FOUND, 404))


def test_a_search_without_hits_is_not_called_an_unknown_work() -> None:
    told = ArtifactRejected("no source knows it: crossref not-found", code="TG-NRM-003")
    work = unknown(FetchTarget("doi:10.5555/1", "doi", "metadata", "public", ()), told)
    search = unknown(FetchTarget("search:crossref:x", SEARCH, SEARCH, "public", ()), told)
    assert (work.message, work.exit_code) == (told.message, 69)
    assert (search.message, search.code) == ("nothing was found", "TG-NRM-003")
    assert "--source" in search.hint
