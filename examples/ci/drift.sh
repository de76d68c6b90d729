#!/bin/sh
# Fails if a node is not as planned: exit code 2. drift.md says which. Changes nothing.
#   drift.sh PLAN
set -eu
nodejoin status --detailed-exitcode --format markdown "$1" > drift.md
