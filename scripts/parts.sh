# Run commands at the same time, each with its output in a log. For scripts that source it:
# `part NAME COMMAND...` starts one, `wait_for_parts` shows how far they are, one line for each that
# passed and the whole log of each that failed, and ends the script.
# shellcheck shell=bash

PROGRESS_SECONDS=60

# A directory that gates can enter: their users are not the user of the tests.
place=$(mktemp -d /tmp/tg.XXXX)
chmod 755 "$place"
declare -A parts=() # process group by name
trap 'for group in "${parts[@]}"; do kill -- "-$group"; done 2>/dev/null; wait; rm -rf "$place"' EXIT
trap 'exit 130' INT TERM

part() {
  local name=$1
  shift
  set -m # a process group for each, so that all of it can be ended
  { status=0; "$@" || status=$?; echo "$status" >"$place/$name.status"; } \
    >"$place/$name.log" 2>&1 </dev/null &
  parts[$name]=$!
  set +m # or bash prints what ended
}

# Print how far each part is, as pytest counts it.
progress() {
  local name far line="threegate: $((SECONDS / 60)) min:"
  for name in "${!parts[@]}"; do
    far=$(grep -o '[0-9]*%' "$place/$name.log" | tail -n 1) || far=runs # only pytest counts
    line+=" $name $far,"
  done
  echo "${line%,}"
}

show_end() {
  local name=$1 status=$2
  if [ "$status" -eq 0 ]; then
    echo "threegate: $name passed after $SECONDS s: $(tail -n 1 "$place/$name.log")"
  else
    cat "$place/$name.log"
    echo "threegate: $name failed after $SECONDS s, exit $status"
  fi
}

wait_for_parts() {
  local name status failed=0 due=$PROGRESS_SECONDS
  while [ ${#parts[@]} -gt 0 ]; do
    sleep 0.2
    for name in "${!parts[@]}"; do
      if kill -0 "${parts[$name]}" 2>/dev/null; then continue; fi
      status=$(cat "$place/$name.status" 2>/dev/null) || status=137 # killed before it could say
      show_end "$name" "$status"
      if [ "$status" -ne 0 ]; then failed=$status; fi
      unset "parts[$name]"
    done
    if [ "$SECONDS" -ge "$due" ] && [ ${#parts[@]} -gt 0 ]; then
      progress
      due=$((SECONDS + PROGRESS_SECONDS))
    fi
  done
  exit "$failed"
}
