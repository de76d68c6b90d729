#!/usr/bin/env bash
# What the acceptance tests need: installs what is missing (Debian, as root) and builds the components (about 35 minutes
# and 2.5 GB from nothing, a second afterwards). They are kept in $NODEJOIN_COMPONENTS, by default nodejoin-acceptance in
# the user's cache folder; it prints which.
set -euo pipefail
cd "$(dirname "$0")"

# Wine runs the node's programs, mingw compiles the DLLs that Wine lacks, sshd, sudo and doas are the doors of a Linux host,
# zstd unpacks its agent, systemd is its process 1, iptables and nftables what its network programs run; gcc compiles the parts of runc and flanneld that are C.
packages=()
for p in wine wine64 gcc-mingw-w64-x86-64 openssh-server openssh-client iproute2 iptables nftables systemd dbus sudo opendoas zstd gcc libc6-dev libseccomp-dev; do
	dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || packages+=("$p")
done
if ((${#packages[@]})); then
	echo "installing: ${packages[*]}" >&2
	apt-get update -qq >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" </dev/null >&2
fi

go run ./components
