"""Every page module is served, no path is declared twice, and the navigation is in order."""

from importlib import import_module
from itertools import product

from threegate.console.access import BrowserSession
from threegate.console.page import PLACE, ConsolePage, PageTemplates
from threegate.console.routes import PAGES

ID = "tr-" + "0" * 64


def test_every_page_module_is_served() -> None:
    modules = [path.stem for pattern in ("*_page.py", "*_pages.py") for path in PLACE.glob(pattern)]
    assert len(modules) > 5, "control: they are found"
    for name in modules:
        pages = import_module(f"threegate.console.{name}").PAGES
        assert set(pages) <= set(PAGES), f"{name} is missing in routes.py"


def test_a_path_has_one_handler() -> None:
    paths = [page.path for page in PAGES]
    assert len(paths) == len(set(paths))
    assert all(page.get or page.post for page in PAGES)


def test_the_navigation_has_every_listed_page_in_the_order_of_the_modules() -> None:
    listed = [page.title for page in PAGES if page.listed]
    assert listed[:4] == ["Inbox", "Fetch", "Ask", "Run"]
    session = BrowserSession("", 0.0, 0.0)
    text = PageTemplates("ws", PAGES).page("missing", session).body.decode()
    assert [text.index(f">{title}</a>") for title in listed] == sorted(
        text.index(f">{title}</a>") for title in listed
    )
    assert {page.under for page in PAGES} <= {"", *(page.path for page in PAGES if page.listed)}


def test_an_id_in_a_path_is_the_subject_and_nothing_else_is() -> None:
    page = ConsolePage("/request/ID")
    assert page.subject(f"/request/{ID}") == ID
    assert ConsolePage("/inbox").subject("/inbox") == ""
    for path, end in product((f"/request/{ID}", "/request/ID"), ("/", "\n", "x")):
        assert page.subject(path + end) is None
