#!/bin/sh
# Writes comment.md, what the plan would change, and change.plan, which apply.sh applies. Changes nothing.
# Runs with the credentials of the hosts, so only for plans that somebody has approved.
#   plan.sh PLAN
set -eu
umask 077
code=0
nodejoin plan --detailed-exitcode --format markdown --out change.plan "$1" > comment.md || code=$?
[ "$code" -eq 2 ] || exit "$code" # 2: changes are pending
