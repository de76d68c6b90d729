package block

import (
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
)

// guardSpec is what the service nodejoin-node of a node does between two applies.
var guardSpec = &eval.Spec{Name: "guard", One: true,
	Doc: "what the service nodejoin-node of a node does between two applies",
	Attrs: []eval.Attr{
		{Name: "enabled", Typ: cty.Bool, Doc: "false: it brings the node back after a boot and renews its tokens, and " +
			"does nothing else. Default true"},
		{Name: "interval", Typ: cty.String, Doc: "time between two checks of the node, default \"1m\""},
		{Name: "metrics_port", Typ: cty.Number,
			Doc: "port on 127.0.0.1 on which it serves Prometheus metrics; default none"},
		{Name: "metrics_certificate", Typ: cty.String, Doc: "certificate in PEM, with those of authorities between: the " +
			"port is on all addresses then, over TLS"},
		{Name: "metrics_key", Typ: cty.String, Secret: true, Doc: "its key in PEM; it may be sensitive"},
		{Name: "textfile", Typ: cty.String, Doc: "file, ending in .prom, to which it writes the same metrics, for the " +
			"collector textfile of windows_exporter or node_exporter; default none"},
	}}

func (j *settingJudge) guard() {
	j.Duration("interval", 10*time.Second, time.Hour, 0)
	j.Int("metrics_port", 1, 65535, 0)
	if path := j.Str("textfile"); path != "" && !strings.HasSuffix(path, ".prom") {
		j.Fail("textfile", "invalid path", "%q does not end in .prom, so the collector textfile would not read it.", path)
	}
}
