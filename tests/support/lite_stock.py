"""The same programs without our lane: controls in stock Monty and in plain Python."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_monty import Monty

from threegate.sandbox.worker import find_worker


def in_monty(
    *codes: str,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> Any:
    """Feed programs to one session of stock Monty and return the last one's value."""
    binary = str(find_worker().binary)
    value = None
    with (
        Monty(binary_path=binary, min_processes=1, max_processes=1) as pool,
        pool.checkout() as session,
    ):
        for code in codes:
            value = session.feed_run(code, external_lookup=dict(functions or {}))
    return value


def in_python(code: str, **environment: str) -> str:
    """Run a program in a new interpreter and return what it printed; it must come to its end."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
