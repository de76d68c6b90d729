#!/usr/bin/env bash
# selftest.sh AREAS: has nodejoin.exe test this Windows machine; what it saw is added to evidence/.
# selftest.sh ssh:   the same over the machine's own OpenSSH server, once for each default shell.
# In Git Bash, as administrator, with Go. Elsewhere it checks that nodejoin.exe builds and that the plan is valid.
set -euo pipefail
cd "$(dirname "$0")/../.."

programs=${RUNNER_TEMP:-$(mktemp -d)}
plan=.github/windows/self.join.hcl
if [[ $(go env GOHOSTOS) != windows ]]; then
	.github/windows/build.sh "$programs"
	exec go run ./cmd/nodejoin validate --var user=u --var key=key --var known_hosts=known "$plan"
fi
programs=$(cygpath -u "$programs")
nodejoin=$programs/nodejoin.exe
[[ -e $nodejoin ]] || .github/windows/build.sh "$programs"

# with_run adds the address of this run to the files that a self-test wrote.
with_run() {
	[[ -n ${GITHUB_RUN_ID-} ]] || return 0
	local file run="$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID"
	for file in evidence/*.json; do
		jq --arg run "$run" '.run = $run' "$file" >"$file.new" && mv "$file.new" "$file"
	done
}

if [[ $1 != ssh ]]; then
	code=0
	"$nodejoin" doctor "--self-test=$1" --yes-change-this-machine || code=$?
	with_run
	exit "$code"
fi

folder=$(mktemp -d)
ssh-keygen -q -t ed25519 -N '' -f "$folder/key"
powershell.exe -NoProfile -ExecutionPolicy Bypass -File "$(cygpath -w .github/windows/sshd.ps1)" \
	-Key "$(cygpath -w "$folder/key.pub")"
windir=$(cygpath -w "$SYSTEMROOT")
pwsh="$(cygpath -w "$PROGRAMFILES")\\PowerShell\\7\\pwsh.exe"
bash="$(cygpath -w "$PROGRAMFILES")\\Git\\bin\\bash.exe"
failed=0
for shell in '' "$windir\\System32\\cmd.exe" "$windir\\System32\\WindowsPowerShell\\v1.0\\powershell.exe" "$pwsh" "$bash"; do
	if [[ -n $shell ]]; then
		[[ -e $(cygpath -u "$shell") ]] || { echo "no $shell on this machine"; continue; }
		MSYS_NO_PATHCONV=1 reg.exe add 'HKLM\SOFTWARE\OpenSSH' /v DefaultShell /t REG_SZ /d "$shell" /f
	fi
	printf '::group::default shell: %s\n' "${shell:-none set}"
	"$nodejoin" doctor --self-test=machine,files,programs,services,registry,ssh,shutdown --yes-change-this-machine \
		--var "user=$USERNAME" --var "key=$(cygpath -m "$folder/key")" --var "known_hosts=$(cygpath -m "$folder/known")" \
		"$plan" || failed=1
	printf '::endgroup::\n'
done
MSYS_NO_PATHCONV=1 reg.exe delete 'HKLM\SOFTWARE\OpenSSH' /v DefaultShell /f || :
with_run
exit "$failed"
