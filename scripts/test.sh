#!/usr/bin/env bash
# Every test but the slow ones and the corpus, in two halves at once: the tests in real boxes
# wait more than they compute. What the second half says is shown when the first one is done.
# `scripts/test.sh PYTEST-OPTION...` hands options to both.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTEST=${VENV:-.venv}/bin/pytest
# A place for each half: a pytest that starts closes the one it shares with another to all but
# its user, and the other's gates have users of their own.
place=$(mktemp -d /tmp/tg.XXXX)
chmod 755 "$place"
# What boots guests stays together: an image and a snapshot are made once in a process of tests.
guests=(tests/e2e/test_heavy_run.py tests/e2e/test_image_guest.py tests/e2e/test_runsc_run.py
  tests/e2e/test_gateway_run.py)
"$PYTEST" --basetemp "$place/a" tests/contract tests/escape "${guests[@]}" "$@" >"$place/log" 2>&1 &
boxes=$!
trap 'rm -rf "$place"' EXIT
trap 'kill -INT "$boxes" 2>/dev/null; wait "$boxes" || true; exit 130' INT TERM

rest=0 escape=0
"$PYTEST" --basetemp "$place/b" tests/unit tests/e2e "${guests[@]/#/--ignore=}" "$@" || rest=$?
wait "$boxes" || escape=$?
cat "$place/log"
if [ "$rest" -ne 0 ]; then exit "$rest"; fi
exit "$escape"
