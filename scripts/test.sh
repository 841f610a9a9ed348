#!/usr/bin/env bash
# Every test but the slow ones and the corpus, in two halves at once: the tests in real boxes
# wait more than they compute. What the second half says is shown when the first one is done.
# `scripts/test.sh PYTEST-OPTION...` hands options to both.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTEST=${VENV:-.venv}/bin/pytest
log=$(mktemp)
"$PYTEST" tests/contract tests/escape "$@" >"$log" 2>&1 &
boxes=$!
trap 'rm -f "$log"' EXIT
trap 'kill -INT "$boxes" 2>/dev/null; exit 130' INT TERM

rest=0 escape=0
"$PYTEST" tests/unit tests/e2e "$@" || rest=$?
wait "$boxes" || escape=$?
cat "$log"
if [ "$rest" -ne 0 ]; then exit "$rest"; fi
exit "$escape"
