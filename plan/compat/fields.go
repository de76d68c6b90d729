package compat

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

//go:embed data/kubelet_fields.txt
var kubeletFieldsText string

//go:embed data/kube_proxy_fields.txt
var kubeProxyFieldsText string

type fieldTable struct {
	names []string // sorted
	rows  map[string][]span
	open  map[string]bool // paths that have fields below them in the table
}

var fieldTables = sync.OnceValue(func() map[string]fieldTable {
	return map[string]fieldTable{KubeletProgram: readFieldTable(kubeletFieldsText),
		KubeProxyProgram: readFieldTable(kubeProxyFieldsText)}
})

func readFieldTable(text string) fieldTable {
	t := fieldTable{rows: map[string][]span{}, open: map[string]bool{}}
	for _, f := range dataRows(text) {
		f = append(f, "", "")
		var s span
		s.since, _ = parseLine(f[1])
		s.until, _ = parseLine(f[2])
		if len(t.rows[f[0]]) == 0 {
			t.names = append(t.names, f[0])
		}
		t.rows[f[0]] = append(t.rows[f[0]], s)
		if i := strings.LastIndexByte(f[0], '.'); i > 0 {
			t.open[f[0][:i]] = true
		}
	}
	slices.Sort(t.names)
	return t
}

// freeFields are maps and lists whose contents the tables do not describe.
var freeFields = []string{"featureGates", "evictionHard", "evictionSoft", "evictionSoftGracePeriod",
	"evictionMinimumReclaim", "systemReserved",
	"kubeReserved", "qosReserved", "staticPodURLHeader", "cpuManagerPolicyOptions", "topologyManagerPolicyOptions",
	"reservedMemory.limits", "registerWithTaints", "logging.vmodule"}

// refusedOnWindows are fields with which the kubelet refuses to start on Windows (kubernetes v1.37.2
// pkg/kubelet/apis/config/validation/validation_windows.go).
var refusedOnWindows = []string{"singleProcessOOMKill", "userNamespaces", "defaultPodSysctls"}

// CheckField reports whether the configuration file of a program has a field in a Kubernetes version:
// KubeletConfiguration kubelet.config.k8s.io/v1beta1 or KubeProxyConfiguration
// kubeproxy.config.k8s.io/v1alpha1. A nested field is given as "authentication.x509.clientCAFile", without
// list indexes. Names are case-sensitive, as in the programs. A field that is not Accepted is worse than an
// error: kubelet and kube-proxy 1.36 log "Using lenient decoding as strict decoding failed" and run without
// it.
//
// Sources: the types of each minor version from 1.14 to 1.37 (see gen.go).
func CheckField(program, path, version string) Verdict {
	v := Verdict{Name: path, Source: "kubernetes sources of each minor version, " + program +
		" configuration types (data/" + strings.ReplaceAll(program, "-", "_") + "_fields.txt)"}
	t, known := fieldTables()[program]
	if !known {
		v.Status, v.Why = Unknown, fmt.Sprintf("the tables do not include the program %q", program)
		return v
	}
	l, note, ok := minorLine("Kubernetes", version, since1_14, kubernetesNewest)
	if !ok {
		return noVersion(path, version)
	}
	v.Assumed = note
	if path == "apiVersion" || path == "kind" {
		return v
	}
	if top, _, _ := strings.Cut(path, "."); program == KubeletProgram && slices.Contains(refusedOnWindows, top) &&
		len(t.rows[path]) > 0 && t.rows[path][0].holds(l) {
		v.Status, v.Why = Refused, "the kubelet for Windows refuses to start with it"
		v.Source = "kubernetes v1.37.2 pkg/kubelet/apis/config/validation/validation_windows.go"
		return v
	}
	rows := t.rows[path]
	for i := strings.LastIndexByte(path, '.'); i > 0 && len(rows) == 0; i = strings.LastIndexByte(path[:i], '.') {
		if slices.Contains(freeFields, path[:i]) {
			rows = t.rows[path[:i]]
		}
	}
	if len(rows) == 0 {
		v.Status = Unknown
		v.Why = fmt.Sprintf("the configuration of %s has no such field in any version from 1.14 to %s", program,
			kubernetesNewest)
		if field, ok := fieldOfFlag(program, strings.TrimLeft(path, "-"), l); ok {
			v.Instead = field
		} else {
			v.Instead = nearest(path, t.names)
		}
		return v
	}
	for _, s := range rows {
		v.Since, v.Until = s.since.text(), s.until.text()
		if s.holds(l) {
			return v
		}
		if l.less(s.since) {
			v.Status, v.Why = NotYet, fmt.Sprintf("the configuration of %s has it since %s", program, s.since)
			if flag, ok := flagOfField(program, path, l); ok {
				v.Instead = "--" + flag
			}
			return v
		}
	}
	v.Status, v.Why = Removed, fmt.Sprintf("removed from the configuration of %s in %s", program, v.Until)
	return v
}

// Fields returns the fields of a program's configuration file in a version, sorted; nil for an unknown
// program or an invalid version.
func Fields(program, version string) []string {
	t, known := fieldTables()[program]
	l, _, ok := minorLine("Kubernetes", version, since1_14, kubernetesNewest)
	if !known || !ok {
		return nil
	}
	var out []string
	for _, name := range t.names {
		for _, s := range t.rows[name] {
			if s.holds(l) {
				out = append(out, name)
			}
		}
	}
	return out
}

// flagFields maps flags to fields that have a different name.
var flagFields = map[string]map[string]string{
	KubeletProgram: {
		"client-ca-file":                               "authentication.x509.clientCAFile",
		"anonymous-auth":                               "authentication.anonymous.enabled",
		"authentication-token-webhook":                 "authentication.webhook.enabled",
		"authentication-token-webhook-cache-ttl":       "authentication.webhook.cacheTTL",
		"authorization-mode":                           "authorization.mode",
		"authorization-webhook-cache-authorized-ttl":   "authorization.webhook.cacheAuthorizedTTL",
		"authorization-webhook-cache-unauthorized-ttl": "authorization.webhook.cacheUnauthorizedTTL",
		"pod-manifest-path":                            "staticPodPath",
		"manifest-url":                                 "staticPodURL",
		"manifest-url-header":                          "staticPodURLHeader",
		"tls-private-key-file":                         "tlsPrivateKeyFile",
		"rotate-server-certificates":                   "serverTLSBootstrap",
		"resolv-conf":                                  "resolvConf",
		"v":                                            "logging.verbosity",
		"vmodule":                                      "logging.vmodule",
		"log-flush-frequency":                          "logging.flushFrequency",
		"logging-format":                               "logging.format",
		"kube-api-qps":                                 "kubeAPIQPS",
		"event-qps":                                    "eventRecordQPS",
		"registry-qps":                                 "registryPullQPS",
		"file-check-frequency":                         "fileCheckFrequency",
		"volume-stats-agg-period":                      "volumeStatsAggPeriod",
		"system-reserved-cgroup":                       "systemReservedCgroup",
		"contention-profiling":                         "enableContentionProfiling",
		"image-gc-high-threshold":                      "imageGCHighThresholdPercent",
		"image-gc-low-threshold":                       "imageGCLowThresholdPercent",
		"minimum-image-ttl-duration":                   "imageMinimumGCAge",
		"kube-api-content-type":                        "contentType",
		"pod-max-pids":                                 "podPidsLimit",
		"reserved-cpus":                                "reservedSystemCPUs",
		"log-json-info-buffer-size":                    "logging.options.json.infoBufferSize",
		"log-json-split-stream":                        "logging.options.json.splitStream",
		"log-text-info-buffer-size":                    "logging.options.text.infoBufferSize",
		"log-text-split-stream":                        "logging.options.text.splitStream",
	},
	KubeProxyProgram: {
		"proxy-mode":              "mode",
		"kubeconfig":              "clientConnection.kubeconfig",
		"kube-api-qps":            "clientConnection.qps",
		"kube-api-burst":          "clientConnection.burst",
		"kube-api-content-type":   "clientConnection.contentType",
		"windows-service":         "windowsRunAsService",
		"network-name":            "winkernel.networkName",
		"source-vip":              "winkernel.sourceVip",
		"enable-dsr":              "winkernel.enableDSR",
		"root-hnsendpoint-name":   "winkernel.rootHnsEndpointName",
		"forward-healthcheck-vip": "winkernel.forwardHealthCheckVip",
		"profiling":               "enableProfiling",
		"nodeport-addresses":      "nodePortAddresses",
	},
}

// fieldOfFlag returns the field that replaces a flag, if the version has it: from the table, or the flag's
// name in camel case, with any case of acronyms.
func fieldOfFlag(program, flag string, l line) (string, bool) {
	t := fieldTables()[program]
	has := func(path string) bool {
		return slices.ContainsFunc(t.rows[path], func(s span) bool { return s.holds(l) })
	}
	if path, ok := flagFields[program][flag]; ok {
		return path, has(path)
	}
	plain := strings.ReplaceAll(flag, "-", "")
	if plain == "" {
		return "", false
	}
	for _, name := range t.names {
		if strings.EqualFold(name, plain) && has(name) {
			return name, true
		}
	}
	return "", false
}

// flagOfField is the inverse.
func flagOfField(program, path string, l line) (string, bool) {
	t := flagTables()[program]
	for _, flag := range t.names {
		field, ok := flagFields[program][flag]
		if !ok {
			field = strings.ReplaceAll(flag, "-", "")
		}
		if strings.EqualFold(field, path) &&
			slices.ContainsFunc(t.rows[flag], func(r flagRow) bool { return r.span.holds(l) }) {
			return flag, true
		}
	}
	return "", false
}
