"""Compile the Monty worker's launcher and lock, and the guest's init.

Done by `make setup`, and when a wheel is built.  The digests of what was compiled are written
beside it, and the lite lane compares them before it starts.
"""

import hashlib
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from threegate.sandbox.syscalls import architecture
from threegate.sandbox.worker import BUILT, DIGESTS, header

OURS = Path(__file__).parent.parent / "src" / "threegate"
SOURCES = OURS / "sandbox" / "native"
GUEST = OURS / "host" / "images" / "native"
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fno-ident", "-Wl,--build-id=none"]

# No C library: nothing but the few calls that are written down.
ALONE = ["-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-fno-pie", "-no-pie"]


def compile_to(target: Path, source: Path, include: str, *flags: str) -> str:
    target.parent.mkdir(exist_ok=True)
    argv = ["cc", *FLAGS, *flags, "-I", include, "-o", str(target), str(source)]
    subprocess.run(argv, check=True)
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    print(f"threegate: built {target.name} {digest[:16]}", file=sys.stderr)
    return digest


def main() -> int:
    with tempfile.TemporaryDirectory() as include:
        (Path(include) / "worker.h").write_text(header(architecture()), encoding="ascii")
        shared = ("-shared", "-fPIC", "-nostartfiles")
        digests = {
            "launcher": compile_to(BUILT / "launcher", SOURCES / "launcher.c", include, *ALONE),
            "lock": compile_to(BUILT / "lock.so", SOURCES / "lock.c", include, *shared),
        }
        (BUILT / DIGESTS).write_text(json.dumps(digests), encoding="ascii")
        if platform.machine() == "x86_64":  # guests are of this machine only
            alone = (*ALONE, "-s", "-I", str(SOURCES))
            compile_to(GUEST / "bin" / "init", GUEST / "init.c", include, *alone)
    return 0


if __name__ == "__main__":
    sys.exit(main())
