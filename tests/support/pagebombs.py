"""Pages made to use up whoever reads them."""

from tests.support.pages import ARTICLE, page


def _fonts(count: int) -> str:
    """Open formatting elements are opened again in every paragraph: count * count elements."""
    opened = "".join(f"<font color='#{number:06x}'>" for number in range(count))
    return "<p>" + opened + "<p>x" * count


def _laughs() -> bytes:
    entities = "".join(
        f'<!ENTITY l{number} "{f"&l{number - 1};" * 10}">' for number in range(1, 12)
    )
    return (
        '<?xml version="1.0"?><!DOCTYPE html [<!ENTITY l0 "haha">' + entities + "]>"
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head><body>'
        f"{ARTICLE}<p>&l11;</p></body></html>"
    ).encode()


# Refused before it is parsed.
REFUSED = {
    "deep": b"<div>" * 1_000_000,
    "deep and balanced": b"<div>" * 100_000 + b"x" + b"</div>" * 100_000,
    "wide": b"<br>" * 1_000_000,
    "attributes": b"<p " + b" ".join(b"a%d=1" % number for number in range(1_200_000)) + b">x",
    "large": b"<p>" + b"x" * 11 * 2**20,
}
# Read, because nothing in it grows.
READ = {
    "laughing XHTML": _laughs(),
    "many rules": page("", head="<style>" + ".a{display:none}" * 60_000 + "</style>"),
    "many selectors": page("", head="<style>" + "a,b c,d>e" * 20_000 + "{display:none}</style>"),
    "an endless style": page(f'<p style="{"color:red;" * 200_000}">x</p>'),
    "an open comment": page("<!--" + "x" * 2**20),
    "many entities": page("&amp;" * 100_000),
    "one long word": page("<p>" + "x" * 2**20),
}
# Past what is counted beforehand: the box's own limits decide, and may be generous.
UNBOUNDED = {
    "deep behind its own back": b"<div><object></div></object>" * 40_000,
    "formatting again and again": _fonts(3000).encode(),
    "tables in tables": b"<table><tr><td>" * 240 + b"<table>x" * 20_000,
    "anchors": b"<a href=x>" * 60_000 + b"x",
}
