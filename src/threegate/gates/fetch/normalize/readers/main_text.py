"""The main text of a page, found by trafilatura's own rules, with as little of it as that takes.

`import trafilatura` brings downloads, TLS, the guessing of dates and forty megabytes of locale
data.  Here its extraction modules are loaded by themselves, with stand-ins for what they
import and never call on this way.  docs/decisions/0011-pdfium-and-lxml-in-boxes.md.

SECURITY
    Hostile pages, already without scripts and hidden text, through libxml2.  No settings of a
    user, no clock, no network.  What trafilatura raises on a page is its business: the page
    is then read without it.
"""

import sys
from collections.abc import Callable, Iterator
from copy import copy
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

from lxml import etree  # type: ignore[import-untyped]

_MODULES: Final = (
    "baseline",
    "htmlprocessing",
    "main_extractor",
    "settings",
    "utils",
    "xml",
    "xpaths",
)
# The values of trafilatura's core.py, which is not loaded for what else it imports.
_ESCALATION_MAX_CHARS: Final = 3000
_ESCALATION_PAGE_SHARE: Final = 0.2
_ESCALATION_ACCEPT_RATIO: Final = 1.5

# Raised by trafilatura or lxml on pages they cannot make sense of.
FAILURES: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    etree.LxmlError,
)


def _never(*_arguments: object) -> Any:
    raise ValueError("not in this box")


class _NoResponse:
    """What a response of the network would be an instance of."""


def _stand_ins() -> dict[str, ModuleType]:
    spec = find_spec("trafilatura")
    assert spec is not None, "the box has the library"
    names: dict[str, dict[str, object]] = {
        "trafilatura": {"__path__": list(spec.submodule_search_locations or ())},
        "charset_normalizer": {"from_bytes": _never},
        "courlan": {"fix_relative_urls": _never, "get_base_url": _never},
        "urllib3": {"__path__": []},
        "urllib3.response": {"HTTPResponse": _NoResponse},
        "importlib.metadata": {"version": lambda _name: ""},
    }
    made = {name: ModuleType(name) for name in names}
    for name, module in made.items():
        vars(module).update(names[name])
    return made


def _loaded() -> dict[str, Any]:
    """Load a copy of the modules for this reader alone, and leave no trace of how."""
    stand_ins = _stand_ins()

    def ours(name: str) -> bool:
        return name in stand_ins or name.startswith("trafilatura.")

    before = {name: sys.modules.pop(name) for name in list(sys.modules) if ours(name)}
    try:
        sys.modules.update(stand_ins)
        found = {name: import_module(f"trafilatura.{name}") for name in _MODULES}
        extractor: Any = found["main_extractor"]
        extractor.prune_unwanted_sections = _joining(extractor.prune_unwanted_sections)
        return found
    finally:
        for name in [name for name in sys.modules if ours(name)]:
            del sys.modules[name]
        sys.modules.update(before)


def _joining(prune: Callable[..., Any]) -> Callable[..., Any]:
    """Return `prune` with texts beside each other made one.

    It takes tags away and leaves their texts in pieces, and for each piece lxml looks back over
    all before it: time with the square of the links in a paragraph.
    """

    def joined(*arguments: Any, **named: Any) -> Any:
        tree = prune(*arguments, **named)
        for element in tree.iter(etree.Element):
            element.text, element.tail = element.text, element.tail
        return tree

    return joined


_PARTS: Final = _loaded()
_SETTINGS, _UTILS, _XPATHS = _PARTS["settings"], _PARTS["utils"], _PARTS["xpaths"]
_pruned: Final[Callable[..., Any]] = _PARTS["htmlprocessing"].tree_cleaning
_convert: Final[Callable[..., Any]] = _PARTS["htmlprocessing"].convert_tags
_prune: Final[Callable[..., Any]] = _PARTS["htmlprocessing"].prune_unwanted_nodes
_content: Final[Callable[..., Any]] = _PARTS["main_extractor"].extract_content
_to_text: Final[Callable[..., str]] = _PARTS["xml"].xmltotxt


def _options(*, recall: bool = False) -> Any:
    # Dates are not looked for; without this argument the clock would be asked for their bounds.
    no_dates = {"max_date": "none"}
    return _SETTINGS.Extractor(
        fast=True, comments=False, recall=recall, date_params=no_dates, output_format="txt"
    )


_OPTIONS: Final = _options()
_RECALL: Final = _options(recall=True)


def main_text(page: str) -> Any | None:
    """Return the body element trafilatura makes of a page, or None; raises `FAILURES`."""
    tree = _UTILS.load_html(page)
    if tree is None:
        return None
    tree = _prune(tree, _XPATHS.RAW_TREE_PRUNE_XPATH)
    tree = _prune(tree, _XPATHS.REMOVE_COMMENTS_AND_LISTS_XPATH)
    body, text = _extracted(tree, _OPTIONS)
    if len(text) < _OPTIONS.min_extracted_size:
        other, other_text, length = _PARTS["baseline"].baseline(tree)
        if length > len(text):
            body, text = other, other_text
    if 0 < len(text) < _ESCALATION_MAX_CHARS and len(text) < _ESCALATION_PAGE_SHARE * len(
        _PARTS["baseline"].html2txt(tree)
    ):
        more, more_text = _extracted(tree, _RECALL)
        enough = len(more_text) >= _OPTIONS.min_extracted_size
        if enough and len(more_text) > _ESCALATION_ACCEPT_RATIO * len(text):
            body, text = more, more_text
    return body if text else None


def _extracted(tree: Any, options: Any) -> tuple[Any, str]:
    body, text = _content(_convert(_pruned(copy(tree), options), options, None), options)
    return body, text


def sections(body: Any) -> Iterator[tuple[str, str]]:
    """Yield heading and text of each section, the heading part of the text."""
    heading, held = "", etree.Element("body")
    for child in list(body):
        if child.tag == "head":
            yield from _section(heading, held)
            heading, held = " ".join("".join(child.itertext()).split()), etree.Element("body")
        held.append(child)
    yield from _section(heading, held)


def _section(heading: str, held: Any) -> Iterator[tuple[str, str]]:
    text = _to_text(held, False) if len(held) else ""  # noqa: FBT003 - trafilatura's own
    if text.strip():
        yield heading, text
