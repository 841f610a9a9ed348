"""One origin that sends as much as it is asked for."""

import ssl

from tests.support.origin import Request, Site, Sites

NAME = "export.arxiv.org"
PIECE = bytes(256 * 1024)


def bulk(request: Request, tls: ssl.SSLSocket) -> None:
    """Send so many MiB as the path says, and close."""
    count = int(request.path.strip("/")) * 2**20
    head = f"HTTP/1.1 200 Said\r\nContent-Type: application/pdf\r\nContent-Length: {count}\r\n\r\n"
    tls.sendall(head.encode())
    while count:
        tls.sendall(PIECE[:count])
        count -= min(count, len(PIECE))


def world() -> Sites:
    return {NAME: Site(bulk)}
