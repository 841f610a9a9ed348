"""Forms of words that more than one format or protocol uses."""

import re
from typing import Final

from threegate.base.limits import MAX_URL_CHARS
from threegate.base.schema import Integer, Pattern, Time

DIGEST: Final = Pattern("[0-9a-f]{64}", "a SHA-256 in lower-case hex")
NONCE: Final = Pattern("[0-9a-f]{32}", "128 random bits in lower-case hex")
TIME: Final = Time(
    # Hours by hand: `24:00:00` is a moment for some versions of Python and none for others.
    r"20[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z",
    "a UTC time, whole seconds, `Z`",
)
DATE: Final = Pattern(
    r"[12][0-9]{3}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12][0-9]|3[01]))?)?",
    "a date: year, year-month or year-month-day",
)
_HTTPS: Final = r"https://[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?:/[!#-;=?-\[\]_a-z~]*)?"
URL: Final = Pattern(_HTTPS, "an https URL without credentials or port", most=MAX_URL_CHARS)
# A relative path; all bytes but these characters, and a dot that a name begins with, are
# percent-encoded, so no segment is `.` or `..`.
_SEGMENT: Final = r"[!$&-\-0-9:;=@A-Z_a-z~%][!$&-.0-9:;=@A-Z_a-z~%]*"
_PATH: Final = rf"{_SEGMENT}(?:/{_SEGMENT})*"
_COMMIT: Final = "[0-9a-f]{40}(?:[0-9a-f]{24})?"
_MOST_ORIGIN: Final = 140  # characters of `git:`, two commits and what joins them
GIT_PATH: Final = Pattern(_PATH, "a relative path", most=MAX_URL_CHARS - _MOST_ORIGIN)
LOCATION: Final = Pattern(
    rf"{_HTTPS}|file:{_PATH}|git:{_COMMIT}(?:\.\.{_COMMIT})?/{_PATH}",
    "an https URL, or the relative path of an imported file, `file:` or `git:COMMIT/` before it",
    most=MAX_URL_CHARS,
)
CODE: Final = Pattern(r"TG-[A-Z]{2,8}-[0-9]{3}", "a code of an error")
NAME: Final = Pattern(r"[a-z][a-z0-9_-]{0,63}", "a lower-case name")
FILE_NAME: Final = Pattern(
    r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", "a plain file name without folders", most=128
)
HOST: Final = Pattern(
    r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]",
    "a host name in lower case",
    most=253,
)
IDENTIFIER: Final = Pattern(r"[A-Za-z_][A-Za-z0-9_]{0,63}", "a Python identifier", most=64)

EXIT_STATE: Final = Pattern(
    "ok|error|crashed|limit:[a-z-]{1,32}|refused:[a-z-]{1,64}", "an exit state"
)
DESCRIPTOR: Final = Integer(4, 1_023)  # of what a sandbox was handed; 0 to 3 are its channel

SYSTEM_ANCHOR: Final = "system"  # the certificate authorities of this machine
ANCHOR: Final = Pattern(r"system|[0-9a-f]{64}", "`system` or a SHA-256")
NO_ANCHOR: Final = "none"  # of an imported file: there was no connection
ORIGIN_ANCHOR: Final = Pattern(r"none|system|[0-9a-f]{64}", "`none`, `system` or a SHA-256")
# The prefix of each kind of artifact, and its name in policies and commands.
KINDS: Final = {
    "rp": "research-packet",
    "fr": "fetch-request",
    "tr": "tool-request",
    "ap": "approval",
    "res": "tool-result",
    "an": "analysis",
}
# A language of text recognition, as Tesseract names it: `eng`, `chi_sim`.
OCR_LANGUAGE: Final = re.compile(r"[a-z]{3,8}(?:_[a-z]{2,8}){0,2}")
CONFIDENTIALITY: Final = ("public", "internal", "confidential")  # stricter to the right
REDACTED: Final = "REDACTED"  # in a URL in place of a credential or an address

# Headers that a request needs for itself: a key in the place of one would change its meaning.
NOT_A_KEY: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "cookie"}
    | {"expect", "host", "proxy-authorization", "range", "te", "trailer", "transfer-encoding"}
    | {"upgrade", "user-agent", "via"}
)
