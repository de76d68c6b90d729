#!/bin/sh
# Runs the plan beside it as one tool of a benchmark. The harness gives:
#   HP_HOSTS (name <TAB> address <TAB> port <TAB> node_ip <TAB> pod_cidr), HP_KEY, HP_KNOWN_HOSTS, HP_REPO,
#   HP_VARS (indented JSON: settings and archive digests), HP_FORKS, HP_RUN (a scratch folder), HP_PHASE.
# NODEJOIN names the program: a release build, which carries the agents.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
awk -F'\t' -v key="$HP_KEY" -v known="$HP_KNOWN_HOSTS" -v repo="$HP_REPO" '
  FNR == 1 { file++ }
  file == 1 { hosts = hosts sep sprintf("\"%s\":{\"address\":\"%s\",\"port\":%s,\"node_ip\":\"%s\",\"pod_cidr\":\"%s\"}", $1, $2, $3, $4, $5); sep = "," }
  file == 2 {
    line = $0; sub(/^[ \t]*/, "", line); sub(/,$/, "", line)
    if (line ~ /^"(api_server|cluster_dns|cluster_cidr|service_cidr|pause_image|bootstrap_token|kube_version)":/) { settings = settings s2 line; s2 = "," }
    if (line ~ /^"name":/) { name = line; sub(/^"name": */, "", name) }
    if (line ~ /^"sha256":/) { sum = line; sub(/^"sha256": */, "", sum) }
    if (line == "}" && name != "") { archives = archives s3 name ":" sum; s3 = ","; name = "" }
  }
  END { printf "{\"hosts\":{%s},\"identity\":\"%s\",\"known_hosts\":\"%s\",\"repo\":\"%s\",\"archives\":{%s},\"settings\":{%s}}\n", hosts, key, known, repo, archives, settings }
' "$HP_HOSTS" "$HP_VARS" >"$HP_RUN/vars.json"
case ${HP_PHASE-} in
agents) set -- plan "$here" ;; # it brings the agents to the hosts and changes nothing else
*) set -- apply "$here" --auto-approve ;;
esac
exec "${NODEJOIN:-nodejoin}" "$@" --display plain --parallel "$HP_FORKS" --var-file "$HP_RUN/vars.json"
