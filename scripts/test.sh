#!/usr/bin/env bash
# Every test but the slow ones and the corpus, in three processes: tests in real sandboxes wait more
# than they compute. `scripts/test.sh PYTEST-OPTION...` hands options to all.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/parts.sh

PYTEST=${VENV:-.venv}/bin/pytest
# Tests that boot guests stay together: an image and a snapshot are made once in a process.
guests=(tests/e2e/test_heavy_run.py tests/e2e/test_image_guest.py tests/e2e/test_runsc_run.py
  tests/e2e/test_gateway_run.py tests/e2e/test_cli_ring.py)
guests+=(tests/escape/test_heavy_*.py tests/escape/test_ring_*.py tests/escape/test_push_heavy.py
  tests/escape/test_runsc.py)
# The rest of this list makes the parts equally long.
guests+=(tests/e2e/test_console*.py tests/e2e/test_fetch_*.py tests/escape/test_sandbox_escape.py)
commands=(tests/e2e/test_cli_[!r]*.py tests/e2e/test_cli_r[!i]*.py) # all but that of the ring

# A --basetemp for each: a pytest that starts closes a shared one to all users but its own.
part boxes "$PYTEST" --basetemp "$place/boxes" tests/contract tests/escape "${commands[@]}" \
  "${guests[@]/#/--ignore=}" "$@"
part guests "$PYTEST" --basetemp "$place/guests" "${guests[@]}" "$@"
part rest "$PYTEST" --basetemp "$place/rest" tests/unit tests/e2e \
  "${guests[@]/#/--ignore=}" "${commands[@]/#/--ignore=}" "$@"
wait_for_parts
