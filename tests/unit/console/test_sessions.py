"""Links, cookies and forms: each is worth something once, or for a while."""

from dataclasses import dataclass

from threegate.console import access
from threegate.console.access import RateLimit, Sessions


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_link_works_once_and_not_for_long() -> None:
    clock = Clock()
    found = Sessions(clock)
    link = found.link()
    assert found.enter("x", "me") is None
    assert found.enter(link, "me") is not None, "control"
    assert found.enter(link, "me") is None
    late = found.link()
    clock.now += access.LINK_SECONDS + 1
    assert found.enter(late, "me") is None


def test_a_cookie_is_of_one_browser_and_ends() -> None:
    clock = Clock()
    found = Sessions(clock)
    cookie = found.enter(found.link(), "me") or ""
    assert found.find(cookie, "me") is not None, "control"
    assert found.find(cookie, "somebody else") is None
    assert found.find("", "me") is None
    clock.now += access.IDLE_SECONDS + 1
    assert found.find(cookie, "me") is None
    again = found.enter(found.link(), "me") or ""
    for _ in range(10):
        clock.now += access.IDLE_SECONDS - 1
        found.find(again, "me")
    assert found.find(again, "me") is None, "nobody stays for ever"


def test_leaving_ends_a_session() -> None:
    found = Sessions(Clock())
    cookie = found.enter(found.link(), "me") or ""
    assert found.find(cookie, "me") is not None, "control"
    found.leave(cookie)
    assert found.find(cookie, "me") is None


def test_what_was_shown_is_taken_once_and_by_its_own_session() -> None:
    found = Sessions(Clock())
    first, second = (found.find(found.enter(found.link(), "me") or "", "me") for _ in range(2))
    assert first is not None
    assert second is not None
    token = first.show("tr-x", "digest", 0.0)
    assert second.take(token) is None
    taken = first.take(token)
    assert taken is not None
    assert (taken.request, taken.digest) == ("tr-x", "digest")
    assert first.take(token) is None
    assert first.csrf != second.csrf
    assert first.is_form_of(first.csrf), "control"
    assert not first.is_form_of(second.csrf)
    assert not first.is_form_of("")


def test_forms_links_and_sessions_do_not_pile_up() -> None:
    found = Sessions(Clock())
    links = [found.link() for _ in range(access.MAX_LINKS + 1)]
    assert found.enter(links[0], "me") is None, "the oldest is forgotten"
    cookies = [found.enter(found.link(), "me") or "" for _ in range(access.MAX_SESSIONS + 1)]
    assert len(found) == access.MAX_SESSIONS
    assert found.find(cookies[0], "me") is None
    session = found.find(cookies[-1], "me")
    assert session is not None
    tokens = [session.show("tr-x", "d", 0.0) for _ in range(access.MAX_VIEWS + 1)]
    assert session.take(tokens[0]) is None
    assert session.take(tokens[-1]) is not None


def test_a_bucket_empties_and_fills() -> None:
    clock = Clock()
    bucket = RateLimit(3, 2.0, clock)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    clock.now += 1
    assert [bucket.take() for _ in range(3)] == [True, True, False]
