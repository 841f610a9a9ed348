"""Where and when figures were measured."""

import os
import platform
import sqlite3
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from bench.figures import Plain
from threegate.host.filesystem import filesystem_of

ROOT = Path(__file__).resolve().parent.parent


def facts(directory: Path) -> Plain:
    """Return what a reader needs to judge or repeat the figures."""
    mounts = Path("/proc/self/mountinfo").read_text("utf-8", errors="surrogateescape")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "revision": revision(),
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        "filesystem": filesystem_of(directory.resolve(), mounts) or "unknown",
        "load": round(os.getloadavg()[0], 2),
    }


def revision() -> str:
    """Return the commit, and whether the measured sources differ from it."""
    changed = _git("status", "--porcelain", "--", "src", "bench")
    return _git("rev-parse", "--short=12", "HEAD") + (" with changes" if changed else "")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()
