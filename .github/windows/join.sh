#!/usr/bin/env bash
# join.sh PROGRAMS: joins this Windows machine, over its own OpenSSH server, to a control plane that runs on it too.
# PROGRAMS is the folder that "programs.sh windows PROGRAMS" makes. The networks of HNS use a loopback adapter, so that the
# machine's own connection stays. What is seen comes to evidence/. In Git Bash, as administrator, with Go.
set -euo pipefail
cd "$(dirname "$0")/../.."
programs=$1 address=10.77.0.1
[[ $(go env GOHOSTOS) == windows ]] || { echo "join.sh needs Windows; TestSelfTest of the acceptance tests does this under Wine" >&2; exit 2; }

folder=$(mktemp -d)
ssh-keygen -q -t ed25519 -N '' -f "$folder/key"
powershell.exe -NoProfile -ExecutionPolicy Bypass -File "$(cygpath -w .github/windows/sshd.ps1)" \
	-Key "$(cygpath -w "$folder/key.pub")"
# A Docker Engine of the machine would keep its own networks of HNS.
powershell.exe -NoProfile -Command "Get-Service docker -ErrorAction SilentlyContinue | Stop-Service -Force"
go run ./examples/internal/loopback "$address" 255.255.255.0

# The address can take seconds until it is in use: Windows looks for another machine that has it.
for ((i = 0; i < 60; i++)); do
	ssh-keyscan -t ed25519 "$address" >"$folder/known" 2>"$folder/keyscan.log" && [[ -s $folder/known ]] && break
	sleep 1
done
[[ -s $folder/known ]] || { echo "sshd does not answer at $address within a minute" >&2; cat "$folder/keyscan.log" >&2; exit 1; }

run=
[[ -z ${GITHUB_RUN_ID-} ]] || run="$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID"
# The Node's processes and the control plane share the machine: it is its own proof only for what one machine can show.
"$programs/realjoin.exe" -programs "$programs" -address "$address" -host "$address" -user "$USERNAME" \
	-shell "$(cygpath -m "$BASH")" -identity "$(cygpath -m "$folder/key")" -known-hosts "$(cygpath -m "$folder/known")" -run "$run" \
	-restart-hns "powershell.exe -NoProfile -Command 'Restart-Service -Force hns'" -image registry.k8s.io/pause:3.10
