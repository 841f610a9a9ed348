#!/usr/bin/env bash
# A first session with ThreeGate, in a throw-away directory with a throw-away key.
# `make demo` runs it on a test internet; `threegate` must be on the PATH.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export HOME=$home XDG_CONFIG_HOME=$home/.config XDG_STATE_HOME=$home/.local/state
unset THREEGATE_WORKSPACE SSH_AUTH_SOCK
cp -r "$here/artifacts" "$here/lite" "$here/web" "$home"
cd "$home"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n== %s\n' "$*"; }

# Run a line of shell and show it as one would type it.  Usage: run EXPECTED_EXIT_CODES LINE
run() {
  local expected=$1 line=$2 code=0
  printf '\n$ %s\n' "$line"
  eval "$line" || code=$?
  if [[ " $expected " != *" $code "* ]]; then
    echo "first-session: exit $code, not $expected" >&2
    exit 1
  fi
  if [ "$code" -ne 0 ]; then echo "(exit $code)"; fi
}

say "1. A workspace: policy, handoff, audit log. Your key signs the policy."
run 0 'threegate init research'
export THREEGATE_WORKSPACE=$home/research

say "2. Literature, from a test internet. Its certificate authority is nobody's: listing it widens policy."
if [ -n "${TEST_INTERNET_CA:-}" ]; then
  mkdir research/policy/anchors
  cp "$TEST_INTERNET_CA" research/policy/anchors/test-internet.pem
  anchor=$(sha256sum "$TEST_INTERNET_CA" | cut -c1-64)
  run 0 "sed -i 's/^trust_anchors: .*/trust_anchors: [system, \"sha256:$anchor\"]/' research/policy/fetch.policy.md"
  run 0 "sed -i '/^hosts:/r web/notes-host.yaml' research/policy/fetch.policy.md"
  run 0 'threegate policy diff'
  run 0 'threegate policy apply --yes'
  run 0 'threegate fetch --dry-run doi:10.5555/threegate.ice.2021.7'
  # 69: the kernel cannot hold the proxy to its ports, and says so; then there is no fetch.
  run '0 69' 'threegate fetch doi:10.5555/threegate.ice.2024.17 doi:10.5555/threegate.ice.2021.7 arxiv:2610.99901 https://notes.western-basin.example/field-notes'
  run 0 'threegate packet list'
  fetched=$(threegate packet search --json hands press | sed -n 's/.*"id": "\(rp-[0-9a-f]*\)".*/\1/p')
  if [ -n "$fetched" ]; then run 0 "threegate packet show $fetched"; fi
  run 77 'threegate fetch https://collect.example.net/'
else
  echo 'There is none here: `make demo` makes one, where namespaces can be made.'
fi

say "3. What crosses a gate is an artifact, checked against a strict format."
run 65 'threegate validate artifacts/packet-field-strength.md artifacts/packet-hostile-title.md artifacts/request-mean.draft.md'

say "4. Bring them in. What breaks a rule goes to quarantine, with its bytes and the reason."
run 65 'threegate admit artifacts/packet-*.md artifacts/analysis-strength.md artifacts/request-*.draft.md'

say "5. The hostile title, spelled out. Printed raw it would write to your clipboard."
digest=$(sha256sum artifacts/packet-hostile-title.md | cut -c1-12)
run 0 'threegate quarantine list'
run 0 "threegate quarantine show $digest | grep title:"

say "6. What is here now. The drafts wait for a human; nothing runs by itself."
run 0 'threegate packet list'
run 0 'threegate request list'
run 0 "threegate packet search '\"flexural strength\"' brine"

say "7. An injection in a source is text like any other: quoted, flagged, inert."
packet=$(threegate packet search --json collect.example.net laboratory | sed -n 's/.*"id": "\(rp-[0-9a-f]*\)".*/\1/p')
run 0 "threegate packet show $packet"

say "8. Where did the answer come from?"
analysis=$(threegate analysis list --json | sed -n 's/.*"id": "\(an-[0-9a-f]*\)".*/\1/p')
run 0 "threegate audit graph $analysis"

say "9. Policy is prose and rules in one file. An edit does nothing until you sign it."
run 0 'threegate policy explain https://api.crossref.org/works/10.5555%2Fsea-ice-2024-017'
run 0 'threegate policy explain https://collect.example.net/'
run 0 "sed -i 's/^held_expiry_seconds: 7d/held_expiry_seconds: 30d/' research/policy/handoff.policy.md"
run 0 "sed -i 's/^redirects: 5/redirects: 2/' research/policy/fetch.policy.md"
run 0 'threegate policy diff'
run 0 'threegate policy apply --yes'

say "10. A computation: ask, see exactly what would run, sign it, run it, prove it."
run 0 "threegate request new --purpose 'Rank the samples by strength' --code lite/ranking/rank.py --input samples=lite/ranking/samples.json"
request=$(threegate request list --state held --json | sed -n 's/.*"id": "\(tr-[0-9a-f]*\)".*/\1/p' | head -1)
run 75 "threegate run $request"
run 0 "threegate review show $request"
run 0 "threegate review approve $request --yes"
run 0 "threegate run $request"
result=$(threegate result list --json | sed -n 's/.*"id": "\(res-[0-9a-f]*\)".*/\1/p' | head -1)
run 0 "threegate replay $result"
run 2 "threegate run $request"

say "11. Everything that happened is in a hash-chained log, and the log can be verified."
run 0 'threegate audit show --limit 6'
run 0 'threegate audit verify'

say "12. A checkpoint to keep elsewhere: OpenSSH checks it without our code."
run 0 'threegate audit export usb-stick'
size=$(basename usb-stick/checkpoint-*.README .README)
run 0 'cd usb-stick'
run 0 "ssh-keygen -Y verify -f $size.signers -I operator -n threegate-checkpoint -s $size.txt.sig < $size.txt"
run 0 'cd ..'

say "13. Every gate starts in its box on this machine, tries each forbidden act and fails."
run '0 69' 'threegate doctor'  # 69: it says what this machine lacks

say "14. Somebody edits a stored packet behind the log's back."
stored=$(find research/handoff/packets/accepted -name "$packet.md")
run 0 "sed -i 's/1[.]31 MPa/9.99 MPa/' $stored"
run 76 'threegate audit verify'
run 76 "threegate packet show $packet"

say "Where to look next"
cat <<'TEXT'
  .venv/bin/threegate --help every command; each has its own --help with examples
  docs/operator-guide.md     how to use all of it
  docs/execution-backends.md what the lite lane runs, with more examples
  docs/models.md             which model answers `threegate ask`; this session had none
  docs/architecture.md       how it is built, and what is not there yet
  examples/artifacts/        the files of this session
The workspace of this session is gone; `.venv/bin/threegate init DIRECTORY` makes yours.
TEXT
