package block

import (
	"regexp"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/names"
)

const installDoc = "false: not on this node, though its profile has it. Default true"

var csiProxySpec = &eval.Spec{Name: "csi_proxy", One: true,
	Doc: "csi-proxy as a service of Windows, for storage plugins in pods that have no rights on the machine",
	Attrs: []eval.Attr{
		{Name: "version", Typ: cty.String, Doc: "its version; needed here or in the profile"},
		{Name: "working_dirs", Typ: eval.Strings, Doc: "folders in which it may work besides the kubelet's"},
		{Name: "install", Typ: cty.Bool, Doc: installDoc},
		keepAttr,
	}}

var exporterSpec = &eval.Spec{Name: "windows_exporter", One: true,
	Doc: "windows_exporter as a service of Windows, which shows metrics of the machine to Prometheus", Attrs: []eval.Attr{
		{Name: "version", Typ: cty.String, Doc: "its version; needed here or in the profile"},
		{Name: "port", Typ: cty.Number, Doc: "TCP port, default 9182"},
		{Name: "collectors", Typ: eval.Strings,
			Doc: "collectors by name, \"[defaults]\" for those that it chooses itself; default [\"[defaults]\"]"},
		{Name: "textfile_dir", Typ: cty.String, Doc: "folder whose *.prom files are included; it is created"},
		{Name: "remote", Typ: eval.Strings,
			Doc: "addresses and networks that may query it; opens the port for them; default: the port stays closed"},
		{Name: "install", Typ: cty.Bool, Doc: installDoc},
		keepAttr,
	}}

// Installed reports whether the block is there and does not say install = false.
func (b SettingBlock) Installed() bool {
	g, ok := b.Args["install"]
	return b.Args != nil && (!ok || !g.Value.False())
}

// Port returns the argument "port"; ok is false for a number that was reported.
func (b SettingBlock) Port(fallback uint16) (port uint16, ok bool) {
	g, given := b.Args["port"]
	if !given {
		return fallback, true
	}
	n, _ := g.Value.AsBigFloat().Int64()
	return uint16(n), n >= 1 && n <= 65535
}

// addonVersion checks the version of a program that is not a part of a node.
func (j *settingJudge) addonVersion(artifact string) {
	text := version(j.Section, "version")
	if text == "" {
		return
	}
	switch v := compat.CheckAddon(artifact, text); {
	case !v.Accepted():
		j.Fail("version", "version not supported", "%s cannot be run as nodejoin runs it: %s%s", v.Name, v.Why, Instead(v))
	case v.Assumed != "":
		j.Scope.Warn(j.At("version"), "version newer than the tables", "%s.", v.Assumed)
	}
}

func (j *settingJudge) csiProxy() {
	j.addonVersion(compat.CSIProxy)
	for i, d := range j.Strs("working_dirs") {
		if why := names.BadPath("windows", d); why != "" {
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
		if why := names.BadPath("windows", d); why != "" {
			j.Fail("textfile_dir", "invalid path", "%q cannot be a folder on windows: %s.", d, why)
		}
	}
	list := j.Strs("collectors")
	for i, name := range list {
		switch {
		case !collectorName.MatchString(name):
			j.FailAt(j.AtIndex("collectors", i), "invalid name",
				"%q cannot be the name of a collector: it has lower-case letters, digits and '_'.", name)
		case slices.Contains(list[:i], name):
			j.FailAt(j.AtIndex("collectors", i), "invalid name",
				"The collector %q is named twice, and windows_exporter would not start. Remove one of them.", name)
		}
	}
}
