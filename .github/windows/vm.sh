#!/usr/bin/env bash
# vm.sh VERSION LANGUAGE [PROGRAMS]: installs an evaluation copy of Windows Server (2019, 2022, 2025) under KVM with the
# image dockurr/windows, turns the feature Containers on, and runs the tests and nodejoin's self-test there over SSH, before
# and after reboots. With PROGRAMS, the folder that "programs.sh linux PROGRAMS" makes, the machine then joins a control
# plane on this one, loses its HNS, boots, and leaves. Evidence comes to evidence/. Needs Linux, Docker, /dev/kvm and Go;
# takes about an hour.
# "vm.sh --check" only builds what it would copy to the machine.
set -euo pipefail
cd "$(dirname "$0")/../.."

image=${NODEJOIN_VM_IMAGE:-docker.io/dockurr/windows:latest}
user=nodejoin
work=$(mktemp -d)
mkdir -p "$work/oem" "$work/storage" "$work/programs" evidence

go generate ./steps/agentbin
go build -tags embedagent -o "$work/nodejoin" ./cmd/nodejoin
export GOOS=windows GOARCH=amd64
for package in host/windows supervise; do
	go test -c -o "$work/programs/${package//\//-}.test.exe" "./steps/$package"
done
unset GOOS GOARCH
if [[ ${1-} == --check ]]; then
	ls "$work/programs"
	"$work/nodejoin" validate --var user=u --var key=k --var known_hosts=h .github/windows/self.join.hcl
	rm -r "$work"
	exit
fi
version=$1 language=$2 programs=${3-}

ssh-keygen -q -t ed25519 -N '' -f "$work/key"
cp .github/windows/sshd.ps1 .github/windows/install.bat "$work/key.pub" "$work/oem/"
options=(-i "$work/key" -o StrictHostKeyChecking=accept-new -o "UserKnownHostsFile=$work/known" -o BatchMode=yes
	-o ConnectTimeout=10 -o ServerAliveInterval=10 -o ServerAliveCountMax=6)
# Machine runs a command line of cmd.exe on the machine, for at most 20 minutes.
machine() { timeout 20m ssh "${options[@]}" -p 2222 "$user@127.0.0.1" "$@"; }

# Answers waits, for at most so many minutes, until the machine answers over SSH.
answers() {
	local end=$((SECONDS + $1 * 60))
	until machine 'ver' 2>/dev/null; do
		if ((SECONDS > end)); then
			echo "the machine did not answer within $1 minutes" >&2
			docker logs --tail 50 "$container" >&2
			return 1
		fi
		sleep 10
	done
}

# Reboot requests a reboot and waits until the machine has gone and is back: sshd starts with it.
reboot() {
	local before after end=$((SECONDS + 900))
	before=$(boots)
	machine 'shutdown /r /t 5'
	# A step of the clock moves the boot time a little, too; its unit is 100 ns.
	until after=$(boots 2>/dev/null) && ((${after//[^0-9]/} - ${before//[^0-9]/} > 20 * 10000000)); do
		((SECONDS < end)) || { echo "no reboot within 15 minutes" >&2; return 1; }
		sleep 10
	done
}
boots() {
	machine 'powershell -NoProfile -Command "(Get-CimInstance Win32_OperatingSystem).LastBootUpTime.ToFileTimeUtc()"'
}

# Selftest has the machine test itself; a failure is reported in the end. It names the phase in its file.
selftest() {
	"$work/nodejoin" doctor --self-test --yes-change-this-machine -o "evidence/$1" --var "user=$user" \
		--var "key=$work/key" --var "known_hosts=$work/known" --var port=2222 .github/windows/self.join.hcl || failed=1
	local file
	for file in "evidence/$1"/*.json; do
		[[ -e $file ]] || continue
		jq --arg run "$run" '.run = $run' "$file" >"evidence/$(basename "$file" .json)-$1.json"
	done
	rm -rf "evidence/$1"
}

run=
[[ -z ${GITHUB_RUN_ID-} ]] || run="$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID"
failed=0
container=$(docker run --detach --device /dev/kvm --device /dev/net/tun --cap-add NET_ADMIN \
	--publish 127.0.0.1:2222:22 \
	--env "VERSION=$version" --env "LANGUAGE=$language" --env "USERNAME=$user" --env "PASSWORD=Nodejoin-$RANDOM-$RANDOM" \
	--env RAM_SIZE=8G --env CPU_CORES=3 --env DISK_SIZE=40G \
	--volume "$work/oem:/oem" --volume "$work/storage:/storage" "$image")
finish() { docker rm --force "$container" >/dev/null; }
trap finish EXIT

answers 75
machine 'mkdir C:\tests'
scp "${options[@]}" -P 2222 "$work"/programs/* "$user@127.0.0.1:/C:/tests/"
machine 'type C:\OEM\sshd.log'
for test in host-windows supervise; do
	machine "cd /d C:\\tests && $test.test.exe -test.v -test.timeout 10m" || failed=1
done
selftest without-containers # HNS cannot be asked: what it says is the evidence
machine 'powershell -NoProfile -Command "Install-WindowsFeature -Name Containers"'
reboot
selftest with-containers
reboot
selftest after-a-boot
if [[ -n $programs ]]; then
	# The machine reaches this one by the gateway of its container.
	address=$(docker inspect --format '{{range .NetworkSettings.Networks}}{{.Gateway}}{{end}}' "$container")
	printf 'options=(%s)\n' "${options[*]@Q}" >"$work/machine.sh"
	declare -f machine boots reboot >>"$work/machine.sh"
	printf 'user=%q\n' "$user" >>"$work/machine.sh"
	"$programs/realjoin" -programs "$programs" -address "$address" -port 2222 -user "$user" -identity "$work/key" \
		-known-hosts "$work/known" -run "$run" -image registry.k8s.io/pause:3.10 \
		-restart-hns ". $work/machine.sh; machine 'powershell -NoProfile -Command \"Restart-Service -Force hns\"'" \
		-reboot ". $work/machine.sh; reboot" || failed=1
fi
exit "$failed"
