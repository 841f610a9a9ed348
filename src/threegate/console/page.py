"""A page: its declaration, the request it answers, and the template it is made from.

A page module declares its paths in `PAGES`; `routes` lists the modules.

SECURITY
    Every value a template prints goes through `visible` (controls, bidi and invisible
    characters are spelled out) and is then escaped; a template cannot forget either.
    A missing value is an error, not an empty text.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from threegate.artifacts.ids import is_id, prefix_of, short
from threegate.base.errors import ThreeGateError, UsageError
from threegate.base.text import visible
from threegate.console.access import BrowserSession
from threegate.console.messages import Malformed, Request, Response
from threegate.host.output import counted
from threegate.host.review.characters import exposed, in_lines, on_one_line
from threegate.host.review.render import age
from threegate.policy.leaves import BYTES

if TYPE_CHECKING:
    from threegate.console.application import App

PLACE: Final = Path(__file__).parent
_ID: Final = "((?:rp|fr|tr|ap|res|an)-[0-9a-f]{64})"

Handler = Callable[["Call"], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """One path and its handlers.

    `ID` in the path is an artifact's id.  The first group of the path is the call's subject.
    """

    path: str
    get: Handler | None = None
    post: Handler | None = None  # of a form with the session's token
    title: str = ""  # of the browser's tab
    listed: bool = False  # in the navigation, under its title
    under: str = ""  # the listed path that is marked in the navigation; else its own
    follows: bool = False  # says when the workspace changed

    def subject(self, path: str) -> str | None:
        """Return the subject of a path, which may be empty; None if the path is not this page's."""
        found = re.fullmatch(self.path.replace("ID", _ID), path)
        if found is None:
            return None
        return found[1] if found.groups() else ""

    def handler(self, method: str) -> Handler | None:
        """Return the handler of a method."""
        return self.get if method == "GET" else self.post


@dataclass(frozen=True, slots=True)
class Call:
    """One request of a browser that is logged in."""

    app: "App"
    request: Request
    session: BrowserSession
    page: ConsolePage
    subject: str = ""  # what the path names

    def show(self, template: str, /, status: int = HTTPStatus.OK, **values: object) -> Response:
        """Return a page of this session."""
        values.setdefault("heard", self.app.events.position)
        values.setdefault("here", self.page.under or self.page.path)
        values.setdefault("title", self.page.title)
        values.setdefault("follows", self.page.follows)
        path = self.request.path
        return self.app.templates.page(template, self.session, status, path, **values)


# -- forms and queries ---------------------------------------------------------------------


def page_number(call: Call) -> int:
    """Return the number of the page that a query asks for; raise `Malformed`."""
    text = call.request.query.get("page", "1")
    if not (text.isascii() and text.isdigit() and 0 < int(text[:7]) < 1_000_000):
        raise Malformed("that is not a page")
    return int(text[:7])


TextPlace = tuple[int, int, int]  # number of a text, first character, number of characters


def text_place(call: Call) -> TextPlace | None:
    """Return the text and the characters that a query names; raise `Malformed`."""
    values = [call.request.query.get(name, "") for name in ("text", "offset", "length")]
    if "" in values:
        return None
    if not all(value.isascii() and value.isdigit() and len(value) < 9 for value in values):
        raise Malformed("that is not a place in a text")
    first, second, third = map(int, values)
    return first, second, third


def at_place(path: str, place: TextPlace | None) -> str:
    """Return a path with the query that `text_place` reads."""
    if place is None:
        return path
    text, offset, length = place
    return f"{path}?text={text}&offset={offset}&length={length}"


def pages_of(total: int, size: int) -> int:
    """Return how many pages of a size there are; an empty list has one."""
    return max(1, -(-total // size))


def status_of(problems: Sequence[str]) -> int:
    """Return the status of a form, with or without problems."""
    return HTTPStatus.UNPROCESSABLE_ENTITY if problems else HTTPStatus.OK


def one_of(allowed: Sequence[str], value: str) -> str:
    """Return a choice that was offered; raise `UsageError`."""
    if value not in allowed:
        raise UsageError("that is not one of the choices")
    return value


def text_of(typed: Mapping[str, str], name: str) -> str:
    """Return the text of a field, with plain line ends and nothing around it."""
    return typed.get(name, "").replace("\r\n", "\n").strip()


def lines_of(error: ThreeGateError) -> list[str]:
    """Return an error as the lines of a form."""
    return [f"{error.message} [{error.code}]", *([error.hint] if error.hint else [])]


# -- templates -----------------------------------------------------------------------------


def _spelled(value: Any) -> Any:
    if isinstance(value, Markup):  # the result of another template
        return value
    return visible(value) if isinstance(value, str) else value


def _named(foreign: str) -> str:
    """Return a file's name for a sentence of ours: it cannot reorder the sentence."""
    return visible(exposed(foreign, code=True))


def place_of(text: str) -> str:
    """Return the path of the artifact that a text names, nothing if it has no page."""
    if not is_id(text) or prefix_of(text) == "ap":
        return ""
    return f"/request/{text}" if prefix_of(text) in ("fr", "tr") else f"/artifact/{text}"


class PageTemplates:
    """Every template, read once."""

    def __init__(self, workspace: str, pages: Sequence[ConsolePage] = ()) -> None:
        self._templates = Environment(
            loader=FileSystemLoader(PLACE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_spelled,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "short": short,
            "age": age,
            "foreign": on_one_line,
            "foreign_lines": in_lines,
            "name": _named,
            "place": place_of,
            "size": BYTES.show,
        }
        self._templates.globals |= {
            "counted": counted,
            "navigation": [page for page in pages if page.listed],
            "workspace": workspace,
        }

    def page(
        self,
        name: str,
        session: BrowserSession | None,
        /,
        status: int = HTTPStatus.OK,
        path: str = "",
        **values: Any,
    ) -> Response:
        """Return a page; `path` is where it is, if it can be loaded again."""
        defaults = {
            "csrf": "" if session is None else session.csrf,
            "known": session is not None,
            "said": "" if session is None else session.tell(path),
            "heard": "",
            "here": "",
            "follows": False,
        }
        text = self._templates.get_template(f"{name}.html").render(**{**defaults, **values})
        return Response(status, text.encode("utf-8"))
