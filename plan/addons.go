package plan

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
)

const installDoc = "false: not on this node, though its profile has it. Default true"

var csiProxySpec = &eval.Spec{Name: "csi_proxy", One: true, Doc: "csi-proxy as a service of Windows, for storage plugins in pods that have no rights on the machine", Attrs: []eval.Attr{
	{Name: "version", Typ: cty.String, Doc: "its version; needed here or in the profile"},
	{Name: "working_dirs", Typ: eval.Strings, Doc: "folders in which it may work besides the kubelet's"},
	{Name: "install", Typ: cty.Bool, Doc: installDoc},
}}

var exporterSpec = &eval.Spec{Name: "windows_exporter", One: true, Doc: "windows_exporter as a service of Windows, which shows metrics of the machine to Prometheus", Attrs: []eval.Attr{
	{Name: "version", Typ: cty.String, Doc: "its version; needed here or in the profile"},
	{Name: "port", Typ: cty.Number, Doc: "TCP port, default 9182"},
	{Name: "collectors", Typ: eval.Strings, Doc: "collectors by name, \"[defaults]\" for those that it chooses itself; default [\"[defaults]\"]"},
	{Name: "textfile_dir", Typ: cty.String, Doc: "folder whose files *.prom are shown, too; it is made"},
	{Name: "remote", Typ: eval.Strings, Doc: "addresses and networks that may ask it: opens the port for them; default it is not opened"},
	{Name: "install", Typ: cty.Bool, Doc: installDoc},
}}

// addonVersion judges the version of a program that is no part of a node.
func (j *settingJudge) addonVersion(artifact string) {
	text := version(j.Section, "version")
	if text == "" {
		return
	}
	switch v := compat.CheckAddon(artifact, text); {
	case !v.Accepted():
		j.Fail("version", "version not supported", "%s cannot be run as nodejoin runs it: %s%s", v.Name, v.Why, instead(v))
	case v.Assumed != "":
		j.Scope.Warn(j.At("version"), "version newer than the tables", "%s.", v.Assumed)
	}
}

func (j *settingJudge) csiProxy() {
	j.addonVersion(compat.CSIProxy)
	for i, d := range j.Strs("working_dirs") {
		if why := badPath("windows", d); why != "" {
			j.FailAt(j.AtIndex("working_dirs", i), "invalid path", "%q cannot be a folder on windows: %s.", d, why)
		}
	}
}

// collectorName is the name of a collector, or the placeholder.
var collectorName = regexp.MustCompile(`^([a-z0-9_]+|\[defaults\])$`)

func (j *settingJudge) exporter() {
	j.addonVersion(compat.WindowsExporter)
	j.Int("port", 1, 65535, 0)
	j.remote(j.Section)
	if d := j.Str("textfile_dir"); d != "" {
		if why := badPath("windows", d); why != "" {
			j.Fail("textfile_dir", "invalid path", "%q cannot be a folder on windows: %s.", d, why)
		}
	}
	list := j.Strs("collectors")
	for i, name := range list {
		switch {
		case !collectorName.MatchString(name):
			j.FailAt(j.AtIndex("collectors", i), "invalid name", "%q cannot be the name of a collector: it has lower-case letters, digits and '_'.", name)
		case slices.Contains(list[:i], name):
			j.FailAt(j.AtIndex("collectors", i), "invalid name", "The collector %q is named twice, and windows_exporter would not start. Remove one of them.", name)
		}
	}
}

// addon tells whether a block asks for its program on this machine, and reports what
// it lacks.
func (w *settingWriter) addon(name string, b settingBlock) bool {
	if w.windowsOnly(name, b.at) {
		return false
	}
	if g, ok := b.args["install"]; ok && g.value.False() {
		return false
	}
	switch {
	case len(w.c.written["cluster"]) == 0:
		w.c.FailOn(w.m.Name, b.at, "block without effect", "Node %q joins no cluster, so it gets no %s. Remove it.", w.m.Name, name)
		return false
	case b.text("version") == "" && b.args["version"].value == cty.NilVal && !w.c.failedBefore("version of "+w.c.Files.Place(b.at)):
		w.c.FailOn(w.m.Name, b.at, "missing argument", "The %s block of node %q has no \"version\", here or in its profile.", name, w.m.Name)
		return false
	}
	return b.text("version") != ""
}

func (w *settingWriter) csiProxy(b settingBlock) {
	if w.addon("csi_proxy", b) {
		w.out.CSIProxy = &recipe.CSIProxy{Version: strings.TrimPrefix(b.text("version"), "v"), WorkingDirs: b.texts("working_dirs"), Source: w.c.Files.Place(b.at)}
	}
}

func (w *settingWriter) exporter(b settingBlock) {
	if !w.addon("windows_exporter", b) {
		return
	}
	x := &recipe.Exporter{Version: strings.TrimPrefix(b.text("version"), "v"), Port: recipe.ExporterPort, Collectors: b.texts("collectors"), Textfile: b.text("textfile_dir"), Source: w.c.Files.Place(b.at)}
	at := b.at
	if g, ok := b.args["port"]; ok {
		n, _ := g.value.AsBigFloat().Int64()
		if n < 1 || n > 65535 {
			return // reported
		}
		x.Port, at = uint16(n), g.at
	}
	for _, p := range w.boundPorts() {
		if p.protocol == "tcp" && p.port == x.Port {
			w.c.FailOn(w.m.Name, at, "ports of the node", "%s of node %q has port %d. Give windows_exporter another.", p.program, w.m.Name, p.port)
			return
		}
	}
	if g, ok := b.args["collectors"]; ok && x.Textfile != "" && slices.Contains(x.Collectors, "textfile") {
		w.c.FailOn(w.m.Name, g.at, "argument without effect", "Node %q has a \"textfile_dir\", with which nodejoin enables the collector \"textfile\". Leave it out here.", w.m.Name)
		return
	}
	w.out.Exporter = x
	w.note("exporter_textfile_dir", b.at)
	g, open := b.args["remote"]
	switch {
	case !open:
	case w.out.Firewall.Off:
		w.c.FailOn(w.m.Name, g.at, "argument without effect", "With manage = false in its firewall block node %q gets no rules of nodejoin, so the argument \"remote\" has no effect. Remove one of the two.", w.m.Name)
	default:
		w.opened = w.open(&w.out.Firewall, w.opened, "windows_exporter", "tcp", strconv.Itoa(int(x.Port)), b.texts("remote"), g.at)
	}
}
