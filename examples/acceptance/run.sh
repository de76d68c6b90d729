#!/usr/bin/env bash
# The acceptance tier: nodejoin against real components. Installs what is missing
# (Debian, as root), builds the components (about 18 minutes and 1.5 GB from nothing, a
# second afterwards) and runs the tests. Arguments go to `go test` instead: -v -run 'TestJoin$' .
#
# Components are kept in $NODEJOIN_COMPONENTS, by default nodejoin-acceptance in the
# user's cache folder. How long the tests took is written to *.json in $NODEJOIN_TEST_TIMES, if that is set.
set -euo pipefail
cd "$(dirname "$0")"

# Wine runs the node's programs, mingw compiles the DLLs that Wine lacks, sshd is the door of a Linux host,
# systemd its process 1, iptables and nftables what its network programs run; gcc compiles the parts of runc and flanneld that are C.
packages=()
for p in wine wine64 gcc-mingw-w64-x86-64 openssh-server openssh-client iproute2 iptables nftables systemd dbus gcc libc6-dev libseccomp-dev; do
	dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || packages+=("$p")
done
if ((${#packages[@]})); then
	echo "installing: ${packages[*]}"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" </dev/null
fi

NODEJOIN_COMPONENTS=$(go run ./components)
export NODEJOIN_COMPONENTS

# With arguments it is plain go test in this folder: somebody is looking at a test.
if (($#)); then
	exec go test -count=1 -p 1 -timeout 60m "$@"
fi

# A test that fails is run once more, whole, and named at the end: real components on a busy machine
# have their own moods, and one bad moment of theirs shall not cost the run. What fails twice fails.
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
go -C tools build -o "$tools/gotestsum" gotest.tools/gotestsum
times=${NODEJOIN_TEST_TIMES-$tools}
# tests NAME FLAG... PACKAGES
tests() {
	"$tools/gotestsum" --format testname --jsonfile "$times/$1.json" --rerun-fails=1 --rerun-fails-run-root-test \
		--packages "${*: -1}" -- -count=1 "${@:2:$#-2}"
}

# All parts run, also after one that has failed.
failed=0
# One package after another: they measure time, and share ports that Kubernetes fixes.
tests acceptance -p 1 -timeout 60m ./... || failed=1
(cd ../.. && NODEJOIN_COMPONENTS=$NODEJOIN_COMPONENTS/bin tests cluster -timeout 5m ./steps/cluster/...) || failed=1
# Tests of the module itself that are skipped where sshd or mounting is missing; here they may not be.
(cd ../.. && NODEJOIN_REQUIRE=1 tests transport -timeout 5m ./steps/transport/...) || failed=1
(cd ../.. && NODEJOIN_REQUIRE=1 tests linux -timeout 5m ./steps/host/linux) || failed=1
exit "$failed"
