"""How fast this processor's time stamp counter runs.

A guest that finds out by itself compares it with an emulated timer chip, which goes wrong
while the machine is busy, and then hangs; so it is told.
"""

import ctypes
import mmap
import time
from collections.abc import Callable
from typing import Final

# rdtsc; shl rdx, 32; or rax, rdx; ret
_READ: Final = bytes.fromhex("0f3148c1e2204809d0c3")
_SECONDS: Final = 0.05
_TRIES: Final = 50  # for a look at both clocks that nobody interrupted


def tsc_khz() -> int:
    """Return the rate in kHz, measured for a twentieth of a second."""
    code = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    with mmap.mmap(-1, mmap.PAGESIZE, prot=code) as page:
        page.write(_READ)
        start = ctypes.c_char.from_buffer(page)
        read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(start))
        began, first = _both(read)
        time.sleep(_SECONDS)
        ended, last = _both(read)
        del read, start
    rate: float = (last - first) * 1_000_000 / (ended - began)
    return round(rate)


def _both(read: Callable[[], int]) -> tuple[float, int]:
    """Return both clocks at one moment: on a busy machine one look may take milliseconds."""
    looks = []
    for _ in range(_TRIES):
        before, count, after = time.perf_counter_ns(), read(), time.perf_counter_ns()
        looks.append((after - before, (before + after) / 2, count))
    _, at, count = min(looks)
    return at, count
