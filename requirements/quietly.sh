#!/bin/sh
# quietly.sh COMMAND...: runs COMMAND, shows that it is alive, and its output only if it fails.
set -u
child=
log=$(mktemp)
# pip's lines about what it does, not its warnings.
doing='^ *(Collecting|Downloading|Using|Processing|Building|Preparing|Installing|Successfully) '
trap 'rm -f "$log"' EXIT
trap 'kill $child 2>/dev/null; exit 130' INT TERM
"$@" > "$log" 2>&1 &
child=$!
seconds=0
while kill -0 "$child" 2>/dev/null; do
    sleep 1
    seconds=$((seconds + 1))
    if [ -t 1 ]; then
        printf '\r      %3d s  %-66.66s' "$seconds" "$(grep -E "$doing" "$log" | tail -n 1)"
    elif [ $((seconds % 10)) -eq 0 ]; then
        printf '      %3d s  %.66s\n' "$seconds" "$(grep -E "$doing" "$log" | tail -n 1)"
    fi
done
[ -t 1 ] && printf '\r%80s\r' ''
wait "$child"
status=$?
if [ "$status" -ne 0 ]; then
    cat "$log"
    echo "failed with status $status after $seconds s: $*"
fi
exit "$status"
