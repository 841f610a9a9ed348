#!/usr/bin/env bash
# Make .venv: every tool and library at a locked version, the project itself editable.
# Does nothing, and prints nothing, when .venv already matches the lock files: every target calls it.
# `setup.sh tests` also installs what only the tests start: podman, nftables, Squid, Chromium, QEMU, runsc.
# `setup.sh models NAME...` brings models into the user's cache.
# The output of apt, pip, compilers and downloads goes to .setup.log; the terminal shows steps and times.
set -euo pipefail
cd "$(dirname "$0")/.."

export PATH=$PATH:/usr/sbin:/sbin # where Debian keeps ip, nft and squid

PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
LOG=$PWD/.setup.log
STEPS=5       # of main; `models` is one step alone
SHOWN_LINES=15 # of the log, after a failure

say() { printf 'threegate: %s\n' "$*" >&2; }
fail() {
  say "error: $1"
  if [ $# -gt 1 ]; then say "hint: $2"; fi
  exit 69
}

# Usage: step NUMBER NAME ERROR COMMAND...: run COMMAND with its output in the log, show the time it took.
step() {
  local number=$1 name=$2 error=$3 begin=$SECONDS status=0
  shift 3
  # One log per run: what an earlier run wrote is not the reason of this failure.
  if [ -z "${LOG_BEGUN:-}" ]; then : >"$LOG" && LOG_BEGUN=yes; fi
  printf '=== %s: %s\n' "$name" "$*" >>"$LOG"
  printf 'threegate: %s/%s %s ... ' "$number" "$STEPS" "$name" >&2
  # Without the lock's descriptor: a service that a package starts would keep the lock.
  "$@" >>"$LOG" 2>&1 </dev/null 9>&- || status=$?
  if [ "$status" -eq 0 ]; then
    printf '%s s\n' "$((SECONDS - begin))" >&2
    return
  fi
  printf 'failed after %s s\n' "$((SECONDS - begin))" >&2
  tail -n "$SHOWN_LINES" "$LOG" | cat -v | sed 's/^/    /' >&2
  fail "$error" "the whole log is $LOG"
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Names of Debian packages whose tool is not there, one a line.
missing_packages() {
  command -v git >/dev/null || echo git
  command -v ssh-keygen >/dev/null || echo openssh-client
  command -v flock >/dev/null || echo util-linux
  command -v bwrap >/dev/null || echo bubblewrap
  command -v ip >/dev/null || echo iproute2 # for the test internet
  # What certificates of the web are checked against.
  [ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
  command -v cc >/dev/null || echo gcc
  # A compiler without the C library's headers and static archive cannot make the launcher.
  [ -n "$(find /usr/lib -maxdepth 2 -name libc.a -print -quit 2>/dev/null)" ] || echo libc6-dev
  # The embedded model's library is linked to it; it comes with gcc, but not with every compiler.
  [ -n "$(find /usr/lib -maxdepth 2 -name libgomp.so.1 -print -quit 2>/dev/null)" ] || echo libgomp1
  command -v "$PYTHON" >/dev/null || echo python3
  # Debian ships venv without ensurepip unless this package is there.
  "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
}

# The same for what the tests start; the demo needs none of it.
missing_test_packages() {
  command -v podman >/dev/null || echo podman
  command -v crun >/dev/null || echo crun
  command -v nft >/dev/null || echo nftables
  command -v squid >/dev/null || echo squid-openssl
  command -v debootstrap >/dev/null || echo debootstrap # for the image of `make slow`
  command -v systemd-analyze >/dev/null || echo systemd
  command -v curl >/dev/null || echo curl # the client that is not ours, in controls
  command -v chromium >/dev/null || echo chromium # opens reports
  command -v qemu-system-x86_64 >/dev/null || echo qemu-system-x86 # starts the guests
  command -v runsc >/dev/null || echo runsc # the other engine of the heavy lane
  command -v fsck.erofs >/dev/null || echo erofs-utils # reads what our writer of images wrote
  command -v busybox >/dev/null || echo busybox-static # a program in disguise, for the guests of tests
  [ -e /usr/share/tesseract-ocr/5/tessdata/eng.traineddata ] || echo tesseract-ocr tesseract-ocr-eng # reads scans
  [ -e /usr/share/tesseract-ocr/5/tessdata/deu.traineddata ] || echo tesseract-ocr-deu
  command -v zip >/dev/null || echo zip # starts another program when it is told to
}

missing_for() {
  missing_packages
  if [ "$1" = tests ]; then missing_test_packages; fi
}

# The tests start a Squid of their own; Debian's would serve on this machine from now on.
keep_squid_down() {
  case " $1 " in *" squid-openssl "*) ;; *) return ;; esac
  if [ ! -d /run/systemd/system ]; then return; fi
  say "masking squid.service: the tests need the program, not the service"
  as_root systemctl --quiet mask squid.service
}

# Usage: apt_install PACKAGE...
apt_install() {
  as_root apt-get -qq update || echo "package lists could not be refreshed, trying with the old ones"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@"
}

install_missing() {
  local missing
  missing=$(missing_for "$1" | tr '\n' ' ')
  missing=${missing% }
  if [ -z "$missing" ]; then return; fi
  command -v apt-get >/dev/null ||
    fail "missing on this machine: $missing" "install these packages and try again: $missing"
  if [ "$(id -u)" -ne 0 ] && ! sudo -n true 2>/dev/null; then
    fail "missing on this machine: $missing" "sudo apt-get install $missing"
  fi
  keep_squid_down "$missing"
  # shellcheck disable=SC2086  # a list of package names, split on purpose
  step 1 "system packages: $missing" "apt-get could not install $missing" apt_install $missing
  missing=$(missing_for "$1" | tr '\n' ' ')
  if [ -n "$missing" ]; then
    fail "still missing: $missing" "$PYTHON needs its venv module; or choose one: make setup PYTHON=/usr/bin/python3"
  fi
}

check_python() {
  "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$("$PYTHON" --version) is too old, ThreeGate needs 3.11 or newer" \
      "make setup PYTHON=python3.11"
}

# What the packages in .venv were made from: interpreter, place, lock.
packages_key() {
  {
    "$PYTHON" -c 'import os, sys; print(sys.version, os.path.realpath(sys.executable))'
    pwd
    cat requirements/dev.txt
  } | sha256sum
}

# What the editable install was made from: entry points, dependencies, version.
project_key() { cat pyproject.toml src/threegate/__init__.py | sha256sum; }

pip_install() {
  "$VENV/bin/python" -m pip --disable-pip-version-check install --progress-bar off "$@"
}

install_packages() {
  rm -rf .mypy_cache # it remembers which packages were missing
  # Hashes only, wheels only: no package runs code of its own while it is installed.
  "$PYTHON" -m venv --clear "$VENV" &&
    pip_install --require-hashes --only-binary :all: -r requirements/dev.txt
}

# Usage: unless_done STAMP KEY STEP-ARGUMENT...: run the step unless STAMP was written with this KEY.
unless_done() {
  local stamp=$VENV/.done-$1 key=$2
  shift 2
  if [ "$(cat "$stamp" 2>/dev/null)" = "$key" ]; then return; fi
  step "$@"
  printf '%s\n' "$key" >"$stamp"
}

# What the Monty worker's launcher and the guest's init are compiled from.
native_key() { cat src/threegate/{sandbox,host/images}/native/*.[ch] src/threegate/sandbox/{worker,filters,syscalls}.py scripts/build_native.py | sha256sum; }

build_native() { "$VENV/bin/python" scripts/build_native.py; }

# A box has a read-only view: what is not compiled beforehand is compiled at every start of a gate.
box_key() { find src/threegate -name '*.py' -print0 | sort -z | xargs -0 cat | sha256sum; }

compile_box() {
  "$VENV/bin/python" -m compileall -q --invalidation-mode checked-hash src/threegate
}

install_project() { pip_install --no-index --no-deps --no-build-isolation --editable .; }

pull_models() { "$VENV/bin/threegate" model pull "$@"; }

main() {
  exec 9>.setup.lock
  if command -v flock >/dev/null; then flock 9; fi # two targets started at once make one venv
  if [ "${1:-}" = models ]; then
    STEPS=1
    step 1 models "the models could not be downloaded" pull_models "${@:2}"
    return
  fi
  install_missing "${1:-}"
  check_python
  unless_done packages "$(packages_key)" \
    2 "python packages, $("$PYTHON" --version)" "the locked packages could not be installed" install_packages
  unless_done project "$(project_key)" 3 "the project" "the project could not be installed" install_project
  if [ ! -e src/threegate/sandbox/native/bin/launcher ]; then rm -f "$VENV/.done-native"; fi
  if [ ! -e src/threegate/host/images/native/bin/init ] && [ "$HOSTTYPE" = x86_64 ]; then rm -f "$VENV/.done-native"; fi
  unless_done native "$(native_key)" 4 "native programs" "the native programs could not be compiled" build_native
  unless_done box "$(box_key)" 5 bytecode "the sources could not be compiled to bytecode" compile_box
}

main "$@"
