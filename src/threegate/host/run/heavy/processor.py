"""Which processor this is, as far as a booted guest or the C library's arithmetic depends on it."""

import hashlib
from pathlib import Path
from typing import Final

_INFO: Final = Path("/proc/cpuinfo")
_TELLING: Final = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")
# The C library chooses its mathematical functions by these.
_MATH: Final = ("avx", "avx2", "fma", "fma4")


def processor_class(arch: str) -> str:
    """Return the architecture and those features of the processor that libm looks at."""
    flags = _said().get("flags", "").split()
    return ",".join([arch, *(name for name in _MATH if name in flags)])


def processor() -> str:
    """Return a digest over model and abilities of the first processor."""
    said = _said()
    told = [(name, " ".join(sorted(said.get(name, "").split()))) for name in _TELLING]
    return hashlib.sha256(repr(told).encode("utf-8")).hexdigest()


def _said() -> dict[str, str]:
    try:
        first = _INFO.read_text("utf-8", "replace").partition("\n\n")[0]
    except OSError:  # nothing is known: the same for every machine like that
        first = ""
    return dict(_pair(line) for line in first.splitlines())


def _pair(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()
