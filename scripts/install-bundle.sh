#!/usr/bin/env bash
# Install ThreeGate from this directory, without a network, into a virtual environment.
# Usage: bash install.sh [DIRECTORY]     (default: ~/.local/share/threegate/venv)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=${1:-${XDG_DATA_HOME:-$HOME/.local/share}/threegate/venv}
python=${PYTHON:-python3}

fail() {
  printf 'threegate: error: %s\n' "$1" >&2
  printf 'threegate: hint: %s\n' "$2" >&2
  exit "$3"
}

if [ -e "$target" ] && [ ! -e "$target/pyvenv.cfg" ] && [ -n "$(ls -A "$target")" ]; then
  fail "$target exists and is not a virtual environment" "name another directory" 73
fi

# Every file before any of them is used; the bundle's own digest you compare yourself.
(cd "$here" && sha256sum --check --strict --quiet SHA256SUMS) ||
  fail "the bundle is not what was packed" "copy it again and compare its digest" 65

built_for=$(cat "$here/BUILT-FOR")
command -v "$python" >/dev/null || fail "no $python" "apt-get install python3 python3-venv" 69
this=$("$python" "$here/describe.py") || fail "$python does not start" "PYTHON=/usr/bin/python3 bash install.sh" 69
[ "$this" = "$built_for" ] ||
  fail "built for $built_for, this is $this" \
    "PYTHON=/path/to/python bash install.sh, or make the bundle on a machine like this one" 69
"$python" -c 'import ensurepip' 2>/dev/null ||
  fail "$python cannot make virtual environments" "apt-get install python3-venv" 69

"$python" -m venv --clear "$target"
# -I and no configuration: neither the user's pip settings nor an index may add a source.
PIP_CONFIG_FILE=/dev/null "$target/bin/python" -I -m pip --isolated --disable-pip-version-check \
  install --quiet --no-index --find-links "$here/wheels" --only-binary :all: --require-hashes \
  -r "$here/requirements.txt"
"$target/bin/threegate" --version
printf 'threegate: installed; run %s\n' "$target/bin/threegate" >&2
