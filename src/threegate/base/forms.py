"""Forms of words that more than one protocol uses, and policy too."""

import re
from typing import Final

SYSTEM_ANCHOR: Final = "system"  # the certificate authorities of this machine
ANCHOR: Final = re.compile(r"system|[0-9a-f]{64}")
REDACTED: Final = "REDACTED"  # in a URL in place of a credential or an address

# Headers that a request needs for itself: a key in the place of one would change its meaning.
NOT_A_KEY: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "cookie"}
    | {"expect", "host", "proxy-authorization", "range", "te", "trailer", "transfer-encoding"}
    | {"upgrade", "user-agent", "via"}
)
