#!/usr/bin/env bash
# build.sh FOLDER: builds nodejoin.exe, with its agents, on any system that has Go.
set -euo pipefail
cd "$(dirname "$0")/../.."
go generate ./steps/agentbin
GOOS=windows GOARCH=amd64 go build -tags embedagent -o "$1/nodejoin.exe" ./cmd/nodejoin
