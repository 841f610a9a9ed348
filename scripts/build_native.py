"""Compile the Monty worker's launcher and lock; done by `make setup`."""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from threegate.sandbox.syscalls import architecture
from threegate.sandbox.worker import BUILT, header

SOURCES = Path(__file__).parent.parent / "src" / "threegate" / "sandbox" / "native"
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fno-ident", "-Wl,--build-id=none"]

# No C library: nothing but the few calls that are written down.
ALONE = ["-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-fno-pie", "-no-pie"]


def compile_to(target: str, source: str, include: str, *flags: str) -> None:
    argv = ["cc", *FLAGS, *flags, "-I", include, "-o", str(BUILT / target), str(SOURCES / source)]
    subprocess.run(argv, check=True)


def main() -> int:
    BUILT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as include:
        (Path(include) / "worker.h").write_text(header(architecture()), encoding="ascii")
        compile_to("launcher", "launcher.c", include, *ALONE)
        compile_to("lock.so", "lock.c", include, "-shared", "-fPIC", "-nostartfiles")
    for name in ("launcher", "lock.so"):
        digest = hashlib.sha256((BUILT / name).read_bytes()).hexdigest()
        print(f"threegate: built {name} {digest[:16]}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
