"""Who may speak to the console at all: checked before a request means anything.

A page of another origin can make the operator's browser send requests here.  What it cannot
do is forge the name it was opened under (`Host`), the origin it comes from (`Origin`,
`Sec-Fetch-Site`), or read what is answered: no answer allows that to anybody.

SECURITY
    Reads headers that are foreign.  If this module is wrong, a page elsewhere reads or acts
    through the operator's browser.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from threegate.console.messages import FORM, Request
from threegate.console.multipart import boundary_of

WRONG_HOST: Final = "TG-CON-001"
WRONG_ORIGIN: Final = "TG-CON-002"
NOT_A_FORM: Final = "TG-CON-003"
WRONG_METHOD: Final = "TG-CON-004"
OTHER_USER: Final = "TG-CON-005"
NO_SESSION: Final = "TG-CON-006"
WRONG_TOKEN: Final = "TG-CON-007"  # noqa: S105 -- the name of an error
TOO_MANY: Final = "TG-CON-008"
LOGIN: Final = "/login/"
UPLOADS: Final = ("/run",)  # where a form may bring files

# What a page may load and send, should anything foreign ever become markup in it: nothing but
# our one script and our one style sheet.
_ALLOWED: Final = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
POLICY: Final = "; ".join(_ALLOWED)
HEADERS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    # To nobody else; without any, a browser says that a form of ours comes from `null`.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Embedder-Policy", "require-corp"),
    ("Permissions-Policy", "camera=(), microphone=(), geolocation=(), clipboard-read=()"),
    ("Cache-Control", "no-store"),
)


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """Why a request is not answered, in our words."""

    status: int
    code: str
    reason: str


def refusal(request: Request, hosts: frozenset[str]) -> RefusedRequest | None:
    """Return why a request may not come in, None if it may."""
    host = request.headers.get("host", "")
    # A name that somebody made point to this machine is not one of ours (DNS rebinding).
    if host not in hosts:
        return RefusedRequest(
            HTTPStatus.MISDIRECTED_REQUEST, WRONG_HOST, "it was sent to another name"
        )
    if request.method not in ("GET", "POST"):
        return RefusedRequest(
            HTTPStatus.METHOD_NOT_ALLOWED, WRONG_METHOD, "only GET and POST are known"
        )
    origin = request.headers.get("origin")
    ours = f"http://{host}"
    if origin != ours and (origin is not None or request.method == "POST"):
        return RefusedRequest(HTTPStatus.FORBIDDEN, WRONG_ORIGIN, "it comes from another page")
    # A link elsewhere is not followed into the console; the link of the terminal has no page.
    site = request.headers.get("sec-fetch-site", "none")
    if site not in ("same-origin", "none") and not request.path.startswith(LOGIN):
        return RefusedRequest(HTTPStatus.FORBIDDEN, WRONG_ORIGIN, "it comes from another page")
    if request.method == "POST" and not (
        request.headers.get("content-type") == FORM or brings_files(request)
    ):
        return RefusedRequest(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, NOT_A_FORM, "it is not a form of ours"
        )
    return None


def brings_files(request: Request) -> bool:
    """Tell whether a form may hold files: those of one page, and no other."""
    return (
        request.path in UPLOADS and boundary_of(request.headers.get("content-type", "")) is not None
    )


def names_of(port: int) -> frozenset[str]:
    """Return the names the console answers to on a port of loopback."""
    return frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
