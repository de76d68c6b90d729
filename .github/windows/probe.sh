#!/usr/bin/env bash
# probe.sh services|hns|shutdown|ssh: asks this Windows machine questions and adds what it says to evidence/*.json (see
# examples/evidence/README.md). "ssh" prepares the OpenSSH server, and asks about a shutdown once more through it.
# In Git Bash, as administrator, with Go. Elsewhere it checks that the programs build.
set -euo pipefail
cd "$(dirname "$0")/../.."

programs=${RUNNER_TEMP:-$(mktemp -d)}
export GOOS=windows GOARCH=amd64
go build -o "$programs/probe.exe" ./examples/evidence/probe
go build -o "$programs/agent.exe" ./cmd/nodejoin-agent
if [[ $(go env GOHOSTOS) != windows ]]; then
	exit
fi

run=
[[ -z ${GITHUB_RUN_ID-} ]] || run="$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID"
out=$(cygpath -w "$PWD/evidence")
arguments=(-out "$out" -commit "$(git rev-parse HEAD)" -run "$run")
probe=$(cygpath -u "$programs")/probe.exe

if [[ $1 != ssh ]]; then
	exec "$probe" "${arguments[@]}" "$1"
fi

folder=$(mktemp -d)
key=$folder/key
ssh-keygen -q -t ed25519 -N '' -f "$key"
powershell.exe -NoProfile -ExecutionPolicy Bypass -File "$(cygpath -w .github/windows/sshd.ps1)" \
	-Key "$(cygpath -w "$key.pub")"
NODEJOIN_PROBE_KEY=$(cygpath -w "$key")
NODEJOIN_PROBE_AGENT=$(cygpath -w "$programs/agent.exe")
export NODEJOIN_PROBE_KEY NODEJOIN_PROBE_AGENT
"$probe" "${arguments[@]}" ssh

# A login by SSH is a network logon. The command line is one of cmd.exe, the default shell where none is set.
exec ssh -i "$key" -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile="$folder/known" -o BatchMode=yes \
	"$USERNAME@127.0.0.1" \
	"$(cygpath -w "$probe") -out $out -commit ${arguments[3]} -run \"$run\" -prefix \"ssh: \" shutdown"
