#!/usr/bin/env bash
# Every test but the slow ones and the corpus, in three parts at once: the tests in real boxes
# wait more than they compute. What the others say is shown when the first one is done.
# `scripts/test.sh PYTEST-OPTION...` hands options to all.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTEST=${VENV:-.venv}/bin/pytest
# A place for each part: a pytest that starts closes the one it shares with another to all but
# its user, and the others' gates have users of their own.
place=$(mktemp -d /tmp/tg.XXXX)
chmod 755 "$place"
# What boots guests stays together: an image and a snapshot are made once in a process of tests.
guests=(tests/e2e/test_heavy_run.py tests/e2e/test_image_guest.py tests/e2e/test_runsc_run.py
  tests/e2e/test_gateway_run.py tests/e2e/test_cli_ring.py)
guests+=(tests/escape/test_heavy_*.py tests/escape/test_ring_*.py tests/escape/test_push_heavy.py
  tests/escape/test_runsc.py)
# And what makes the parts alike in time.
guests+=(tests/e2e/test_console*.py tests/e2e/test_fetch_*.py tests/escape/test_sandbox_escape.py)
commands=(tests/e2e/test_cli_[!r]*.py tests/e2e/test_cli_r[!i]*.py) # all but that of the ring

parts=()
part() { # NAME PYTEST-OPTION...
  local name=$1
  shift
  "$PYTEST" --basetemp "$place/$name" "$@" >"$place/$name.log" 2>&1 &
  parts+=("$!")
}
trap 'rm -rf "$place"' EXIT
trap 'kill -TERM "${parts[@]}" 2>/dev/null; wait || true; exit 130' INT TERM

part boxes tests/contract tests/escape "${commands[@]}" "${guests[@]/#/--ignore=}" "$@"
part guests "${guests[@]}" "$@"
rest=0
"$PYTEST" --basetemp "$place/rest" tests/unit tests/e2e \
  "${guests[@]/#/--ignore=}" "${commands[@]/#/--ignore=}" "$@" || rest=$?
for number in 0 1; do
  wait "${parts[number]}" || rest=$?
done
cat "$place"/boxes.log "$place"/guests.log
exit "$rest"
