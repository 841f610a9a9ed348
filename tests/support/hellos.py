"""ClientHellos: real ones of the standard library, and ones put together by hand."""

import ssl


def real_hello(name: str | None, *, old: bool = False) -> bytes:
    """Return what OpenSSL sends first to a server called `name`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if old:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    sent = ssl.MemoryBIO()
    wrapped = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name)
    try:
        wrapped.do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()
    raise AssertionError("a handshake without a server")


def sized(size: int, data: bytes) -> bytes:
    return len(data).to_bytes(size, "big") + data


def extension(kind: int, body: bytes) -> bytes:
    return kind.to_bytes(2, "big") + sized(2, body)


def name_extension(name: bytes) -> bytes:
    return extension(0, sized(2, b"\0" + sized(2, name)))


def message(extensions: bytes | None, *, kind: int = 1) -> bytes:
    """Return a handshake message with these extensions, or without the block of them."""
    body = b"\x03\x03" + bytes(32) + sized(1, b"") + sized(2, b"\x13\x01") + sized(1, b"\0")
    if extensions is not None:
        body += sized(2, extensions)
    return bytes([kind]) + sized(3, body)


def records(data: bytes, piece: int = 2**14) -> bytes:
    """Return a message in records of at most `piece` bytes."""
    head = b"\x16\x03\x01"
    return b"".join(head + sized(2, data[at : at + piece]) for at in range(0, len(data), piece))


def made_hello(extensions: bytes | None) -> bytes:
    return records(message(extensions))
