"""Compile the Monty worker's launcher and lock, and the guest's init; done by `make setup`."""

import hashlib
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from threegate.sandbox.syscalls import architecture
from threegate.sandbox.worker import BUILT, header

OURS = Path(__file__).parent.parent / "src" / "threegate"
SOURCES = OURS / "sandbox" / "native"
GUEST = OURS / "host" / "images" / "native"
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fno-ident", "-Wl,--build-id=none"]

# No C library: nothing but the few calls that are written down.
ALONE = ["-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-fno-pie", "-no-pie"]


def compile_to(target: Path, source: Path, include: str, *flags: str) -> None:
    target.parent.mkdir(exist_ok=True)
    argv = ["cc", *FLAGS, *flags, "-I", include, "-o", str(target), str(source)]
    subprocess.run(argv, check=True)
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    print(f"threegate: built {target.name} {digest[:16]}", file=sys.stderr)


def main() -> int:
    with tempfile.TemporaryDirectory() as include:
        (Path(include) / "worker.h").write_text(header(architecture()), encoding="ascii")
        compile_to(BUILT / "launcher", SOURCES / "launcher.c", include, *ALONE)
        shared = ("-shared", "-fPIC", "-nostartfiles")
        compile_to(BUILT / "lock.so", SOURCES / "lock.c", include, *shared)
        if platform.machine() == "x86_64":  # guests are of this machine only
            alone = (*ALONE, "-s", "-I", str(SOURCES))
            compile_to(GUEST / "bin" / "init", GUEST / "init.c", include, *alone)
    return 0


if __name__ == "__main__":
    sys.exit(main())
