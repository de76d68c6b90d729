#!/bin/sh
# Checks a plan that nobody has read yet. Needs no secret, asks no host and no cluster.
#   check.sh PLAN
set -eu
nodejoin fmt --check -r "$1"
nodejoin validate --untrusted "$1"
