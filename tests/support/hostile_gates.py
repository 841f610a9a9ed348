"""Gates that turn on their host: payloads that break the protocol in every way there is.

SECURITY
    Attack code.  Each function is the payload of a box; the host must end it for the right
    reason, in time, and with nothing left behind.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

from threegate.sandbox.channel import CHUNK, END, HEADER, MAX_CHUNK_BYTES, NOTE, READY, frames

FRAME_FD = 3
FOREVER_SECONDS = 3600


def _say(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(FRAME_FD, view) :]


def garbage() -> None:
    """Speak another language."""
    _say(os.urandom(4096).replace(b"\1", b"\7").replace(b"\2", b"\7").replace(b"\3", b"\7"))


def huge_length() -> None:
    """Announce four gigabytes."""
    _say(HEADER.pack(CHUNK, 2**32 - 1) + b"x")


def chunk_too_long() -> None:
    """Announce one byte more than a chunk may have."""
    _say(HEADER.pack(CHUNK, MAX_CHUNK_BYTES + 1))


def unknown_kind() -> None:
    """Send a frame of no kind."""
    _say(HEADER.pack(9, 0))


def ready_again() -> None:
    """Claim a second time that the lock holds."""
    _say(READY)


def half_a_frame() -> None:
    """Announce more than is sent, and end well."""
    _say(HEADER.pack(CHUNK, 100) + b"half")


def half_a_header() -> None:
    """Answer, and leave three bytes behind."""
    _say(frames(b"answer") + b"\1\0\0")


def no_end() -> None:
    """Answer without an end."""
    _say(HEADER.pack(CHUNK, 6) + b"answer")


def nothing() -> None:
    """End well without a word."""


def two_answers() -> None:
    """Answer twice."""
    _say(frames(b"first") + frames(b"second"))


def two_ends() -> None:
    """End the answer twice."""
    _say(frames(b"first") + HEADER.pack(END, 0))


def end_with_bytes() -> None:
    """Hide bytes in the frame that ends."""
    _say(HEADER.pack(CHUNK, 6) + b"answer" + HEADER.pack(END, 4) + b"more")


def output_after_end() -> None:
    """Go on talking after the answer."""
    _say(frames(b"answer"))
    _say(HEADER.pack(CHUNK, 1) + b"x")


def answer_and_live() -> None:
    """Answer, and stay."""
    _say(frames(b"answer"))
    time.sleep(FOREVER_SECONDS)


def note_and_live() -> None:
    """Say one word, and stay."""
    _say(HEADER.pack(NOTE, 4) + b"here")
    time.sleep(FOREVER_SECONDS)


def silence() -> None:
    """Say nothing, and stay."""
    time.sleep(FOREVER_SECONDS)


def drip() -> None:
    """Send one byte of a frame now and then."""
    _say(HEADER.pack(CHUNK, MAX_CHUNK_BYTES))
    while True:
        _say(b"x")
        time.sleep(0.05)


def note_drip() -> None:
    """Look busy."""
    while True:
        _say(HEADER.pack(NOTE, 4) + b"busy")
        time.sleep(0.05)


def close_and_live() -> None:
    """Close every stream, and stay."""
    for fd in (0, 1, 2, FRAME_FD):
        os.close(fd)
    time.sleep(FOREVER_SECONDS)


def deaf() -> None:
    """Ignore every signal that can be ignored, and stay."""
    for number in range(1, 65):
        if number not in {signal.SIGKILL, signal.SIGSTOP, 32, 33}:
            signal.signal(number, signal.SIG_IGN)
    time.sleep(FOREVER_SECONDS)


def stopped() -> None:
    """Stop, as a debugger would."""
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(FOREVER_SECONDS)


def output_flood() -> None:
    """Send chunks without end."""
    while True:
        _say(HEADER.pack(CHUNK, MAX_CHUNK_BYTES) + bytes(MAX_CHUNK_BYTES))


def note_flood() -> None:
    """Send notes without end."""
    while True:
        _say((HEADER.pack(NOTE, 8) + bytes(8)) * 512)


def error_flood() -> None:
    """Write to stderr without end."""
    while True:
        os.write(2, bytes(65536))


def print_flood() -> None:
    """Print without end, as native code would."""
    while True:
        os.write(1, bytes(65536))


def crash() -> None:
    """Read address zero."""
    ctypes.string_at(0)


def fail() -> None:
    """Answer, and end badly."""
    _say(frames(b"answer"))
    os._exit(7)


def raise_error() -> None:
    """End by an exception."""
    raise RuntimeError("\x1b]0;owned\x07")


def escape_in_errors() -> None:
    """Write control characters to stderr, and fail."""
    sys.stderr.write("\x1b[2J\x1b]0;owned\x07\n")
    sys.stderr.flush()
    os._exit(3)


def _fork_away(*, answer: bool) -> None:
    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(FOREVER_SECONDS)
            os._exit(0)
    if answer:
        _say(frames(b"answer"))


def fork_away() -> None:
    """Leave grandchildren in sessions of their own, answer, and end."""
    _fork_away(answer=True)


def fork_away_and_crash() -> None:
    """Leave grandchildren, and die."""
    _fork_away(answer=False)
    os.kill(os.getpid(), signal.SIGKILL)
