"""Print what wheels depend on here: interpreter, version, operating system, machine, C library."""

import platform
import sys
import sysconfig

LIBC = "-".join(part for part in platform.libc_ver()[:1] if part) or "unknown"
print(
    f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}"
    f" {sysconfig.get_platform()} {LIBC}"
)
