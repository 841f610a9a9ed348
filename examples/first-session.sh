#!/usr/bin/env bash
# A research session with ThreeGate, in a throw-away directory with a throw-away key.
# `make demo` runs it on a test internet; `threegate` must be on the PATH.
#
# At a terminal you are the operator and are asked. Without one, this script plays the operator.
# The policy's model is used if it is in your cache. MODEL=NAME takes another one of
# `threegate model list`, MODEL=none takes none, and KEEP=DIRECTORY keeps the reports.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
began=$SECONDS

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
# Models are large and pinned by digest: they stay in the user's own cache, and are only read.
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$HOME/.cache}
if [ "${MODEL:-}" = none ]; then export XDG_CACHE_HOME=$home/.cache; fi
export HOME=$home XDG_CONFIG_HOME=$home/.config XDG_STATE_HOME=$home/.local/state
unset THREEGATE_WORKSPACE SSH_AUTH_SOCK
cp -r "$here/artifacts" "$here/library" "$here/session" "$here/web" "$home"
cd "$home"

if [ -t 1 ]; then
  say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
else
  say() { printf '\n== %s\n' "$*"; }
fi
tell() {
  echo
  printf '   %s\n' "$@"
}
somebody_is_here() { [ -t 0 ] && [ -t 1 ] && [ -t 2 ]; }

# Run a line of shell and show it as one would type it; its exit code is in $code afterwards.
# Usage: run EXPECTED_EXIT_CODES LINE
run() {
  local expected=$1 line=$2
  code=0
  printf '\n$ %s\n' "$line"
  eval "$line" || code=$?
  if [[ " $expected " != *" $code "* ]]; then
    echo "first-session: exit $code, not $expected" >&2
    exit 1
  fi
  if [ "$code" -ne 0 ]; then echo "(exit $code)"; fi
}

# The newest id that a listing command shows, or nothing.  Usage: newest PREFIX COMMAND...
newest() {
  local prefix=$1
  shift
  threegate "$@" --json | sed -n "s/.*\"id\": \"\($prefix-[0-9a-f]*\)\".*/\1/p" | head -1 | cut -c1-16
}

# Whether a command prints a line like this; all of it is read.  Usage: says COMMAND PATTERN
says() { [ "$($1 | grep -c -- "$2")" -gt 0 ]; }

make_workspace() {
  say "1. A workspace: rules, sources and the record of everything. Your key signs the rules."
  run 0 'threegate init research'
  export THREEGATE_WORKSPACE=$home/research
  local rules=research/policy
  # Short answers: a small model on two cores writes eight words a second.
  sed -i 's/^  claims: 100/  claims: 6/; s/^  output_tokens: 2048/  output_tokens: 512/;
    s/^  retries: 2/  retries: 1/; s/^  drafts: 8/  drafts: 2/' $rules/core.policy.md
  if [ -n "${MODEL:-}" ] && [ "$MODEL" != none ]; then
    local digest
    digest=$(threegate model list --json | grep -A4 "\"name\": \"$MODEL\"" | sed -n 's/.*"sha256": "\(.*\)".*/\1/p')
    if [ -z "$digest" ]; then
      echo "first-session: $MODEL is no model of \`threegate model list\`" >&2
      exit 2
    fi
    sed -i "s/^  name: qwen.*/  name: $MODEL/; s/^  sha256: cc324.*/  sha256: $digest/" $rules/core.policy.md
  fi
  if [ -n "${TEST_INTERNET_CA:-}" ]; then
    mkdir $rules/anchors
    cp "$TEST_INTERNET_CA" $rules/anchors/test-internet.pem
    local anchor
    anchor=$(sha256sum "$TEST_INTERNET_CA" | cut -c1-64)
    sed -i "s/^trust_anchors: .*/trust_anchors: [system, \"sha256:$anchor\"]/" $rules/fetch.policy.md
    sed -i '/^hosts:/r web/notes-host.yaml' $rules/fetch.policy.md
  fi
  tell 'The files in policy/ were just edited: shorter answers, and what the test internet needs.' \
    'An edit does nothing until it is signed, and every capability it widens is named.'
  run 0 'threegate policy apply --yes'
}

import_files() {
  say "2. Your own files: a PDF, notes and data. Each is read in a sandbox without network."
  run 0 'threegate import library --recursive'
  tell 'A question about them, without any model: sentences of the files, word for word.'
  run 0 "threegate ask --extractive 'Which flexural strength was measured at -10 °C?' | sed -n '1,12p'"
  files=$(threegate packet list --json | sed -n 's/.*"id": "\(rp-[0-9a-f]\{12\}\).*/\1/p')
  local paper
  paper=$(newest rp packet search floe Basin loaded failure)
  tell 'And the quote on its page:'
  run 0 "threegate packet page $paper 1 --quote '0.98 MPa at -6 °C and 1.24 MPa at -10 °C' --output page.png"
}

fetch_sources() {
  say "3. Five sources, by way of the proxy and FETCH. A host that no rule lists is never asked."
  code=69
  if [ -n "${TEST_INTERNET_CA:-}" ]; then
    # 69: the kernel cannot hold the proxy to its ports, and says so; then there is no fetch.
    run '0 69' 'threegate fetch doi:10.5555/threegate.ice.2024.17 doi:10.5555/threegate.ice.2022.11 doi:10.5555/threegate.ice.2021.7 https://notes.western-basin.example/field-notes'
  else
    tell "There is no test internet here: it needs namespaces."
  fi
  strengths='1.31, 0.88 and 0.62 MPa' words='flexural strength'
  if [ "$code" -ne 0 ]; then
    strengths='0.71, 0.98, 1.24 and 1.31 MPa' words='strength'
    tell 'Nothing can be fetched on this machine, so the session goes on with packets from examples/.'
    run 0 'threegate admit artifacts/packet-field-strength.md artifacts/packet-laboratory-ice.md'
    return
  fi
  run 0 'threegate fetch arxiv:2610.99901 --want full-text'
  run 77 'threegate fetch https://collect.example.net/'
  tell 'One source was retracted, and one page hides text and gives orders to whoever reads it. Both' \
    'are marked from here on, wherever they are used. The orders are text like any other:'
  run 0 "threegate packet show $(newest rp packet search hands press) | tail -4"
}

ask_about_them() {
  say "4. A question. First without any model: sentences of the sources, word for word."
  run 0 "threegate ask --extractive 'Which flexural strength was measured?' --query 'strength MPa'"
  analysis=$(newest an analysis list)

  say "5. Now the model, in a sandbox without network. It picks sentences, the host cuts out the quotes."
  tell 'This takes about a minute on two free cores, if the model is here.'
  local question="How does the flexural strength of ice change with its brine volume? Calculate the mean of the strengths $strengths."
  run '0 69' "threegate ask '$question' --query '$words' --role data-wrangler"
  modelled=$([ "$code" -eq 0 ] && echo yes || echo no)
  if [ "$modelled" = yes ]; then
    analysis=$(newest an analysis list)
    tell 'The labels say what was checked, and no more: whether a claim is true is for you to judge. A number' \
      'that no quote has is labelled `number differs`: models that calculate in words are often wrong.'
  else
    tell 'There is no answer of a model here, and nothing was stored: the answer without a model remains.'
  fi
}

# Show a request and have it approved; $code is 0 if it was.  Usage: approve REQUEST
approve() {
  if somebody_is_here; then
    tell 'You are the operator: read what would run, then say yes or no.'
    run '0 77' "threegate review approve $1"
  else
    tell 'Nobody is at a terminal: this script plays the operator and signs with its throw-away key.'
    run 0 "threegate review show $1"
    run 0 "threegate review approve $1 --yes"
  fi
}

# Try what the model drafted; $result is what came of it, or nothing.
run_the_draft() {
  result=
  local draft
  draft=$(newest tr request list --state draft)
  if [ -z "$draft" ]; then
    tell 'The model proposed no computation that could run.'
    return
  fi
  run 75 "threegate run $draft"
  tell 'Nothing runs before a human approved these very bytes.'
  approve "$draft"
  if [ "$code" -ne 0 ]; then
    run 0 "threegate review deny $draft --reason 'the operator said no'"
    return
  fi
  run 0 "threegate run $draft"
  result=$(newest res result list)
  if ! says "threegate result show $result" '^exit  *ok'; then
    tell "The model's program ended with an error. That is a result like any other, and harms nothing."
    result=
  fi
}

compute() {
  say "6. A computation: the model drafts, a human decides, a sandbox without files and network runs it."
  run_the_draft
  if [ -n "$result" ]; then return; fi
  tell 'So the operator asks for a program of their own, over two packets. The answer goes with them,' \
    'so that what comes out belongs to it.'
  local packets
  packets=$(threegate packet search --json MPa strength | sed -n 's/.*"id": "\(rp-[0-9a-f]\{12\}\).*/\1/p' | grep -vF "$files")
  # shellcheck disable=SC2086  # a list of ids, split on purpose
  set -- $packets
  run 0 "threegate request new --purpose 'Mean and range of the strengths' --code session/strengths.py --input first=$1 --input second=$2 --input answer=$analysis"
  local request
  request=$(newest tr request list --state held)
  approve "$request"
  if [ "$code" -ne 0 ]; then
    tell 'You said no, so nothing runs.'
    return
  fi
  run 0 "threegate run $request"
  result=$(newest res result list)
}

go_on() {
  if [ -z "$result" ]; then return; fi
  say "7. The same run again gives the same bytes; and the result is read back, as untrusted data."
  run 0 "threegate replay $result"
  local question='What is the mean strength in MPa?' first=$analysis
  if [ "$modelled" = yes ]; then
    run '0 69' "threegate ask '$question' --continue $first --role policy-analyst"
    analysis=$(newest an analysis list)
    if [ "$code" -eq 0 ] && says "threegate analysis show $analysis" "quoted from $result"; then return; fi
    tell 'The model made nothing of the result. So once more without it:'
  fi
  run 0 "threegate ask --extractive '$question' --continue $first"
  analysis=$(newest an analysis list)
}

report() {
  say "8. The report: claims, quotes, sources, approvals, and how to check each of them."
  run 0 "threegate report $analysis --output report.md"
  run 0 "threegate report $analysis --format html --output report.html"
  run 0 "threegate report $analysis --format pdf --output report.pdf"
  run 0 "sed -n '/^## What was checked/,/^## Evidence/p' report.md"
  kept=
  if [ -n "${KEEP:-}" ] && mkdir -p "$KEEP" 2>/dev/null && cp report.* page.png "$KEEP" 2>/dev/null; then kept=$KEEP; fi
}

prove() {
  say "9. What happened is in a hash-chained log. A checkpoint of it, kept elsewhere, needs OpenSSH alone."
  run 0 'threegate audit verify'
  run 0 'threegate audit export usb-stick'
  local size
  size=$(basename usb-stick/checkpoint-*.README .README)
  run 0 "(cd usb-stick && ssh-keygen -Y verify -f $size.signers -I operator -n threegate-checkpoint -s $size.txt.sig < $size.txt)"
}

when_something_is_wrong() {
  say "10. And when something is wrong? A file whose title would write to your clipboard:"
  run 65 'threegate admit artifacts/packet-hostile-title.md'
  run 0 "threegate quarantine show $(sha256sum artifacts/packet-hostile-title.md | cut -c1-12) | grep title:"

  say "11. Somebody edits a stored packet behind the log's back:"
  local stored
  stored=$(grep -l 'MPa' research/handoff/packets/accepted/*.md | head -1)
  run 0 "sed -i 's/[0-9][.][0-9]* MPa/9.99 MPa/' ${stored#"$home/"}"
  run 76 'threegate audit verify'

  say "12. Every gate starts in its sandbox on this machine, tries each forbidden act and fails."
  run '0 69' 'threegate doctor' # 69: it says what this machine lacks
}

where_to_look_next() {
  say "Done in $((SECONDS - began)) s. Where to look next"
  if [ -n "$kept" ]; then tell "$kept/report.html" '   the report of this session; report.md, report.pdf and page.png are beside it'; fi
  cat <<'TEXT'

   .venv/bin/threegate init DIRECTORY   makes a workspace of yours; the one of this session is gone
   .venv/bin/threegate --help           every command; each has its own --help with examples
   docs/operator-guide.md               how to use all of it
   docs/models.md                       which model answers, and how to use your own
   docs/execution-backends.md           what the sandbox runs, with more examples
   docs/architecture.md                 how it is built, and what is not there yet
TEXT
}

main() {
  make_workspace
  import_files
  fetch_sources
  ask_about_them
  compute
  go_on
  report
  prove
  when_something_is_wrong
  where_to_look_next
}

{ main; exit; } # read as a whole: an edit of this file while it runs changes nothing
