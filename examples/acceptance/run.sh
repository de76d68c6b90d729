#!/usr/bin/env bash
# The acceptance tier: nodejoin against real components, which prepare.sh installs and builds. Arguments go to
# `go test` instead: -v -run 'TestJoin$' .
#
# How long the tests took is written to acceptance.json in $NODEJOIN_TEST_TIMES, if that is set.
set -euo pipefail
cd "$(dirname "$0")"
NODEJOIN_COMPONENTS=$(./prepare.sh)
export NODEJOIN_COMPONENTS

# With arguments it is plain go test in this folder: somebody is looking at a test.
if (($#)); then
	exec go test -count=1 -p 1 -timeout 60m "$@"
fi

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
gotestsum=$(go -C tools tool -n gotestsum)
go build -o "$tools/lanes" ./lanes
# What tests build they build without a network.
go mod download
go -C ../.. mod download

# Tests run side by side, each with ports of its own (lanes). A test that fails is run once more, whole, and named at the
# end: real components on a busy machine have their own moods, and one bad moment of theirs shall not cost the run. What
# fails twice fails. The packages named are tests of nodejoin's own module that are skipped where the components, sshd or
# mounting are missing; here they may not be.
"$gotestsum" --raw-command --format testname --jsonfile "${NODEJOIN_TEST_TIMES-$tools}/acceptance.json" \
	--rerun-fails=1 --rerun-fails-run-root-test --hide-summary skipped -- \
	"$tools/lanes" -also nodejoin/steps/cluster,nodejoin/steps/transport,nodejoin/steps/host/linux
