#!/bin/sh
# Runs a command with the private key SSH_KEY (its text, or a file) in an ssh-agent that ends with the command.
#   with-key.sh COMMAND [ARGUMENT...]
set -eu
[ ! -f "$SSH_KEY" ] || SSH_KEY=$(cat "$SSH_KEY")
export SSH_KEY
# shellcheck disable=SC2016 # the inner shell expands it
exec ssh-agent sh -c 'printf "%s\n" "$SSH_KEY" | ssh-add -q - && unset SSH_KEY && exec "$@"' sh "$@"
