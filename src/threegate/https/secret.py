"""A credential that must not come back: looked for in whatever a server says.

SECURITY
    Reads bytes of web servers.  It finds a credential in the spellings that servers have for
    text, not in every way somebody could write it down: a server that wants to hide it can.
"""

import json
import re
from html import escape
from urllib.parse import quote, quote_plus, unquote


class Secret:
    """Finds a credential in what a server says, in the spellings that servers have for text."""

    def __init__(self, credential: str | None) -> None:
        self._found = [text.encode("ascii") for text in spelled(credential or "")]

    def stands_in(self, data: bytes) -> bool:
        """Tell whether the credential stands in `data`."""
        return any(text in data for text in self._found)

    def stands_in_text(self, text: str) -> bool:
        """Tell whether the credential stands in `text`, percent-encoded or not, in any case."""
        plain = text.encode("utf-8", "replace")
        ways = (plain, plain.lower(), unquote(text).encode("utf-8", "replace"))
        return any(self.stands_in(data) for data in ways)


def spelled(credential: str) -> set[str]:
    """Return a credential as it is, and as URLs, JSON and HTML write it."""
    quoted = {quote(credential, safe=""), quote(credential), quote_plus(credential)}
    lower = {re.sub("%..", lambda found: found[0].lower(), text) for text in quoted}
    in_json = json.dumps(credential)[1:-1]
    others = {in_json, in_json.replace("/", "\\/"), escape(credential), credential.lower()}
    return {credential, *quoted, *lower, *others} - {""}
