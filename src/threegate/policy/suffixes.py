"""Domains under which anybody can get a name: a wildcard over one of them allows everybody.

This is a short list of well-known ones, not the Public Suffix List, which changes weekly
and has ten thousand entries.  It catches the slip of the pen; reviewing a wildcard stays
the job of whoever signs the policy.  A single label (`*.com`) is refused by the grammar.
"""

from typing import Final

# Names that resolve to something near the machine, or to nothing (RFC 6761, 6762, 7686, 9476).
NEVER_PUBLIC: Final = frozenset(
    {"alt", "arpa", "internal", "invalid", "local", "localhost", "onion"}
)

_SECOND_LEVEL: Final = {
    "ar": "com edu gob gov net org",
    "au": "asn com edu gov id net org",
    "br": "com edu gov net org",
    "cn": "ac com edu gov net org",
    "co": "com edu gov net org",
    "hk": "com edu gov net org",
    "id": "ac co go or web",
    "il": "ac co gov net org",
    "in": "ac co edu gov net nic org res",
    "jp": "ac ad co ed go gr lg ne or",
    "ke": "ac co go ne or",
    "kr": "ac co go ne or re",
    "mx": "com edu gob net org",
    "my": "com edu gov net org",
    "ng": "com edu gov net org",
    "nz": "ac co geek govt net org school",
    "pk": "com edu gov net org",
    "pl": "com edu gov net org",
    "sg": "com edu gov net org",
    "th": "ac co go in or",
    "tr": "com edu gov net org",
    "tw": "com edu gov net org",
    "ua": "com edu gov net org",
    "uk": "ac co gov ltd me net nhs org plc police sch",
    "vn": "ac com edu gov net org",
    "za": "ac co gov net org web",
}
_HOSTING: Final = (
    "amazonaws.com amplifyapp.com appspot.com azureedge.net azurefd.net azurewebsites.net "
    "blogspot.com cloudapp.net cloudfront.net codeberg.page deno.dev duckdns.org "
    "dyndns.org fastly.net firebaseapp.com fly.dev github.io githubusercontent.com gitlab.io "
    "glitch.me googleapis.com googleusercontent.com herokuapp.com hf.space hopto.org "
    "myshopify.com netlify.app ngrok.app ngrok.io no-ip.org onrender.com pages.dev "
    "r2.dev readthedocs.io render.com replit.app repl.co run.app sharepoint.com "
    "streamlit.app surge.sh trycloudflare.com vercel.app web.app windows.net "
    "wordpress.com workers.dev"
)

SHARED_SUFFIXES: Final = frozenset(
    [f"{second}.{top}" for top, names in _SECOND_LEVEL.items() for second in names.split()]
    + _HOSTING.split()
)
