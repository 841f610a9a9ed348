"""Pages from templates, in which no value can become markup or hide.

SECURITY
    Every value a template prints goes through `visible` (controls, bidi and invisible
    characters are spelled out) and is then escaped; a template cannot forget either.
    A value that is missing is an error, not nothing.
"""

from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from threegate.artifacts.ids import is_id, prefix_of, short
from threegate.base.text import visible
from threegate.console.messages import Response
from threegate.console.sessions import BrowserSession
from threegate.host.output import counted
from threegate.host.review.characters import exposed, in_lines, on_one_line
from threegate.host.review.render import age
from threegate.policy.leaves import BYTES

PLACE: Final = Path(__file__).parent
NAVIGATION: Final = (
    ("inbox", "Inbox"),
    ("fetch", "Fetch"),
    ("ask", "Ask"),
    ("run", "Run"),
    ("packets", "Packets"),
    ("analyses", "Answers"),
    ("results", "Results"),
    ("policy", "Policy"),
    ("audit", "Audit"),
    ("doctor", "Doctor"),
)


def _spelled(value: Any) -> Any:
    if isinstance(value, Markup):  # what another template made
        return value
    return visible(value) if isinstance(value, str) else value


def _named(foreign: str) -> str:
    """Return the name of a file as it stands between our own words: it turns nothing around."""
    return visible(exposed(foreign, code=True))


def place_of(text: str) -> str:
    """Return the page of an artifact that a text names and that has one, else nothing."""
    if not is_id(text) or prefix_of(text) == "ap":
        return ""
    return f"/request/{text}" if prefix_of(text) in ("fr", "tr") else f"/artifact/{text}"


class Templates:
    """Every template, read once."""

    def __init__(self, workspace: str) -> None:
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
            "navigation": NAVIGATION,
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
        told = {
            "csrf": "" if session is None else session.csrf,
            "known": session is not None,
            "said": "" if session is None else session.tell(path),
            "template": name,
            "heard": "",
        }
        text = self._templates.get_template(f"{name}.html").render(
            **{"here": name, **told, **values}
        )
        return Response(status, text.encode("utf-8"))
