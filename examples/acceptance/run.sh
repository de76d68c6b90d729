#!/usr/bin/env bash
# The acceptance tier: nodejoin against real components. Installs what is missing
# (Debian, as root), builds the components (about 16 minutes and 1.5 GB from nothing, a
# second afterwards) and runs the tests. Arguments go to `go test`.
#
# Components are kept in $NODEJOIN_COMPONENTS, by default nodejoin-acceptance in the
# user's cache folder.
set -euo pipefail
cd "$(dirname "$0")"

# Wine runs the node's programs, mingw compiles the DLLs that Wine lacks, sshd is the door of a Linux host.
packages=()
for p in wine wine64 gcc-mingw-w64-x86-64 openssh-server openssh-client; do
	dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || packages+=("$p")
done
if ((${#packages[@]})); then
	echo "installing: ${packages[*]}"
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" </dev/null
fi

NODEJOIN_COMPONENTS=$(go run ./components)
export NODEJOIN_COMPONENTS

# One package after another: they measure time, and share ports that Kubernetes fixes.
go test -count=1 -p 1 -timeout 45m "$@" ./...
(cd ../.. && NODEJOIN_COMPONENTS=$NODEJOIN_COMPONENTS/bin go test -count=1 -timeout 10m "$@" ./steps/cluster/...)
# Tests of the module itself that are skipped where sshd or mounting is missing; here they may not be.
(cd ../.. && NODEJOIN_REQUIRE=1 go test -count=1 -timeout 10m "$@" ./steps/transport/... ./steps/host/linux)
