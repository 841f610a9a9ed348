"""Headers of a request that say something by themselves.

Apart from the messages that use them: whoever reads a policy needs this list and nothing else of
what is said to a model, and every gate that checks an approval reads one at its start.
"""

from typing import Final

# What a request says by itself; a key in its place would change what it means.
NOT_A_KEY: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "cookie"}
    | {"expect", "host", "proxy-authorization", "range", "te", "trailer", "transfer-encoding"}
    | {"upgrade", "user-agent", "via"}
)
