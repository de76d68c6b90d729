package compat

import (
	_ "embed"
	"slices"
	"sync"
)

// Programs of a node whose flags, fields and gates the tables cover.
const (
	KubeletProgram   = "kubelet"
	KubeProxyProgram = "kube-proxy"
)

//go:embed data/kubelet_flags.txt
var kubeletFlagsText string

//go:embed data/kube_proxy_flags.txt
var kubeProxyFlagsText string

// flagRow: the program has the flag in span; deprecated is the zero line if it never was.
type flagRow struct {
	span       span
	deprecated line
	text       string // of the deprecation; "config" when it only says to use the configuration file
}

type flagTable struct {
	names []string // sorted
	rows  map[string][]flagRow
}

// The tables are parsed once. They are embedded, and a test reads them all: a malformed row cannot reach a
// user.
var flagTables = sync.OnceValue(func() map[string]flagTable {
	return map[string]flagTable{KubeletProgram: readFlagTable(kubeletFlagsText),
		KubeProxyProgram: readFlagTable(kubeProxyFlagsText)}
})

func readFlagTable(text string) flagTable {
	t := flagTable{rows: map[string][]flagRow{}}
	for _, f := range dataRows(text) {
		f = append(f, "", "", "", "", "")
		var r flagRow
		r.span.since, _ = parseLine(f[1])
		r.span.until, _ = parseLine(f[2])
		r.deprecated, _ = parseLine(f[3])
		r.text = f[4]
		if len(t.rows[f[0]]) == 0 {
			t.names = append(t.names, f[0])
		}
		t.rows[f[0]] = append(t.rows[f[0]], r)
	}
	slices.Sort(t.names)
	return t
}
