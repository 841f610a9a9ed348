"""Where and when figures were measured."""

import os
import platform
import sqlite3
import subprocess
import sysconfig
from datetime import UTC, datetime
from pathlib import Path

from bench.figures import Plain
from threegate.host.workspace.workspace import filesystem_of

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
        "build": "(optimized build)" if _is_optimized() else "(plain build, about 15 % slower)",
        "sqlite": sqlite3.sqlite_version,
        "filesystem": filesystem_of(directory.resolve(), mounts) or "unknown",
        "load": round(os.getloadavg()[0], 2),
    }


def revision() -> str:
    """Return the commit, and whether the measured sources differ from it."""
    commit = _git("rev-parse", "--short=12", "HEAD") or "unknown"  # an archive has no history
    changed = _git("status", "--porcelain", "--", "src", "bench")
    return commit + (" with changes" if changed else "")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _is_optimized() -> bool:
    """Tell whether this Python was built with profile-guided optimization, as distributions do."""
    return "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()
