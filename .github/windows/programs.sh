#!/usr/bin/env bash
# programs.sh OS FOLDER: builds, on Linux, what join.sh and vm.sh need for a join: a control plane, realjoin and nodejoin
# for OS (windows or linux, where the control plane runs), and the artifacts of a Windows node.
set -euo pipefail
cd "$(dirname "$0")/../.."
os=$1 exe=''
[[ $os != windows ]] || exe=.exe
mkdir -p "$2"
folder=$(cd "$2" && pwd)

go -C examples/acceptance run ./components -pack "$folder" -os "$os"
go generate ./steps/agentbin
export GOOS=$os GOARCH=amd64 CGO_ENABLED=0
go -C examples/acceptance build -trimpath -o "$folder/realjoin$exe" ./realjoin
go build -trimpath -tags embedagent -o "$folder/nodejoin$exe" ./cmd/nodejoin
