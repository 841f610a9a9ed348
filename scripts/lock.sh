#!/usr/bin/env bash
# Resolve requirements/*.in into hashed lock files for every platform and Python 3.11 to 3.14.
# The files must say the same wherever this runs: no index, no machine, no settings of the user.
set -euo pipefail
cd "$(dirname "$0")/../requirements"

PYTHON=${PYTHON:-python3}
RESOLVER=../.venv-lock

"$PYTHON" -m venv --clear "$RESOLVER"
"$RESOLVER/bin/python" -m pip --disable-pip-version-check install --quiet --require-hashes \
  --only-binary :all: -r lock.txt

compile() {
  env -u UV_INDEX -u UV_INDEX_URL -u UV_DEFAULT_INDEX -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS \
    "$RESOLVER/bin/uv" pip compile --quiet --no-config --universal --python-version 3.11 \
    --generate-hashes --no-header --no-annotate --no-emit-index-url --upgrade "$@"
}

compile runtime.in -o runtime.txt
compile --constraint runtime.txt dev.in -o dev.txt # one version of everything that both name
compile lock.in -o lock.txt
rm -rf "$RESOLVER"
echo "threegate: requirements/*.txt written; read the diff before you commit it" >&2
