"""`threegate audit verify` in a process that imports nothing else, which then says what it took.

`verified.py WORKSPACE` prints JSON: exit code, seconds, processor seconds, peak memory in MiB.
"""

import json
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path


def main() -> int:
    """Verify and print the figures."""
    began = time.perf_counter()
    from threegate.cli.main import main as run

    with redirect_stdout(sys.stderr):
        code = run(["-w", sys.argv[1], "audit", "verify"])
    status = Path("/proc/self/status").read_text("utf-8")
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 2**10
    figures = (code, time.perf_counter() - began, time.process_time(), peak)
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
