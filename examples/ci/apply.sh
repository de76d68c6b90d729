#!/bin/sh
# Applies exactly what plan.sh showed, or nothing if the plan or its hosts have changed since.
# apply.xml has a test case for each host.
set -eu
nodejoin apply --junit apply.xml change.plan
