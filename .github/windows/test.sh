#!/usr/bin/env bash
# Runs, on Windows, the tests that are about Windows itself or need nothing else. Elsewhere it checks that they build.
# Needs Go and, on Windows, an administrator.
set -euo pipefail
cd "$(dirname "$0")/../.."

packages=(
	./steps/host/windows # with the conformance suite of steps/host/hosttest
	./steps/supervise
	./steps/hostlock
	./steps/node
	./steps/transport/...
	./steps/selftest
)
if [[ $(go env GOHOSTOS) != windows ]]; then
	GOOS=windows exec go vet "${packages[@]}"
fi

# All packages run, even after one has failed.
failed=0
for package in "${packages[@]}"; do
	printf '::group::%s\n' "$package"
	go test -timeout 10m -v "$package" || failed=1
	printf '::endgroup::\n'
done
exit "$failed"
