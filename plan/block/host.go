package block

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// hostSettings are the arguments of the host block. A setting that is not given is left as the
// machine has it, or with "defaults" is set as the projects that run many Windows nodes set it:
// the ports, updates and names of SMB shares as kubernetes-sigs/image-builder (ansible/windows,
// systemprep), the exclusions as it and openshift/windows-machine-config-operator, the
// keep-alive as kubernetes cluster/gce/windows. None of them turns on long paths, but volumes
// of pods come close to the limit. The right page file depends on a machine's memory and disk.
var hostSettings = []hostSetting{
	{Attr: eval.Attr{Name: "hostname", Typ: cty.String, Doc: "the machine's own name: letters, digits and '-', at " +
		"most 63, without a domain; each machine needs its own, so it usually stands in a node block (hostname = " +
		"each.key); on " +
		"Windows and Linux; on Windows it takes effect after a reboot"},
		judge:    func(j *settingJudge, name string) { j.hostName(name) },
		Anywhere: true},
	{Attr: eval.Attr{Name: "long_paths", Typ: cty.Bool, Doc: "programs may use paths of more than 260 characters, " +
		"which volumes of pods come close to; applies to programs started later"},
		Usual: cty.True},
	{Attr: eval.Attr{Name: "page_file", Typ: cty.Number,
		Doc: "fixed size of the page file of drive C: in MiB, for example 8096; takes effect after a reboot"},
		judge: func(j *settingJudge, name string) { j.Int(name, 16, 1<<20, 0) }},
	{Attr: eval.Attr{Name: "crash_dump", Typ: cty.String, Doc: "what is kept when Windows crashes: \"none\", " +
		"\"small\", \"kernel\", \"complete\" or \"automatic\"; takes effect after a reboot"},
		judge: func(j *settingJudge, name string) {
			j.oneOf(name, slices.Sorted(maps.Keys(recipe.CrashDumps)))
		}},
	{Attr: eval.Attr{Name: "windows_update", Typ: cty.String,
		Doc: "how updates come: \"off\" (only by hand), \"notify\" or \"download\" (installed by hand); updates that " +
			"come by themselves have broken pod networks and reboot nodes that were not drained"},
		Usual: cty.StringVal("off"),
		judge: func(j *settingJudge, name string) {
			j.oneOf(name, slices.Sorted(maps.Keys(recipe.WindowsUpdates)))
		}},
	{Attr: eval.Attr{Name: "defender_exclusions", Typ: cty.Bool,
		Doc: "Defender does not scan the programs of the node and the folder of its images as they are used, by policy"},
		Usual: cty.True},
	{Attr: eval.Attr{Name: "static_address", Typ: cty.Bool,
		Doc: "the machine's address is static: HNS keeps it when it makes a virtual switch (needed before Windows Server " +
			"2022)"},
		judge: func(j *settingJudge, name string) { j.onlyTrue(name) }},
	{Attr: eval.Attr{Name: "smb_names", Typ: cty.Bool, Doc: "containers find SMB shares by name under containerd"},
		Usual: cty.True},
	{Attr: eval.Attr{Name: "tcp_keepalive", Typ: cty.String, Doc: "idle time after which a TCP connection is " +
		"probed, \"60s\" (Windows default: two hours), so that a lost API server is noticed; takes effect after a reboot"},
		Usual: cty.StringVal("60s"),
		judge: func(j *settingJudge, name string) { j.Duration(name, time.Second, 24*time.Hour, 0) }},
	{Attr: eval.Attr{Name: "trusted_cas", Typ: cty.List(cty.String),
		Doc: "certificate authorities that the machine's programs trust, each in PEM, as file(\"ca.pem\") gives it; on " +
			"Windows and Linux"},
		judge:    func(j *settingJudge, name string) { j.authorities(name) },
		Anywhere: true},
}

var hostSpec = func() *eval.Spec {
	s := &eval.Spec{Name: "host", One: true, Doc: "settings of the machine, mostly of Windows, that suit a node; a " +
		"setting that is not given stays as it is or is restored"}
	usual := ""
	for _, h := range allHostSettings {
		s.Attrs = append(s.Attrs, h.Attr)
		if h.Usual != cty.NilVal {
			usual += fmt.Sprintf(", %s = %s", h.Attr.Name, hclwrite.TokensForValue(h.Usual).Bytes())
		}
	}
	s.Attrs = append(s.Attrs, eval.Attr{Name: DefaultsArg, Typ: cty.Bool,
		Doc: "use proven settings for Windows nodes where an argument is not given: " + usual[2:]}, keepAttr)
	return s
}()

// DefaultsArg asks for the usual values of all other settings.
const DefaultsArg = "defaults"

var allHostSettings = slices.Concat(hostSettings, portSettings, rebootSettings)

// HostArg is an argument of the host block as it applies to a machine.
type HostArg struct {
	Setting
	Name     string
	Written  string // Name, or DefaultsArg if that gives the value
	Anywhere bool   // it is for Linux too
}

// HostArgs returns the arguments of a host block, in the order in which they apply, with
// the values that it takes from "defaults".
func (b SettingBlock) HostArgs() []HostArg {
	if b.Args == nil {
		return nil
	}
	var out []HostArg
	for _, h := range allHostSettings {
		name := h.Attr.Name
		if g, ok := b.Args[name]; ok {
			out = append(out, HostArg{g, name, name, h.Anywhere})
		} else if b.Defaults() && h.Usual != cty.NilVal {
			out = append(out, HostArg{Setting{Value: h.Usual, At: b.Args[DefaultsArg].At}, name, DefaultsArg, h.Anywhere})
		}
	}
	return out
}

// Defaults reports whether a host block asks for the usual values.
func (b SettingBlock) Defaults() bool {
	d, ok := b.Args[DefaultsArg]
	return ok && d.Value.True()
}

func (j *settingJudge) host() {
	for _, h := range allHostSettings {
		if _, given := j.Values[h.Attr.Name]; given && h.judge != nil {
			h.judge(j, h.Attr.Name)
		}
	}
}

// authorities checks a list of certificates: each element is one or more authorities in PEM,
// and none is repeated.
func (j *settingJudge) authorities(name string) {
	seen := map[string]bool{}
	for i, text := range j.Strs(name) {
		list, err := kinds.Authorities(text)
		if err != nil {
			j.FailAt(j.AtIndex(name, i), "invalid certificate", "This cannot be an authority to trust: %v. Give the "+
				"authority's certificate in PEM, for example file(\"ca.pem\").", err)
		}
		for _, ca := range list {
			if seen[string(ca.Raw)] {
				j.FailAt(j.AtIndex(name, i), "duplicate certificate",
					"The authority %s is in this list twice. Remove one of the two.", ca.Subject)
			}
			seen[string(ca.Raw)] = true
		}
	}
}

func (j *settingJudge) hostName(name string) {
	if why := host.HostNameFault(j.Str(name)); why != "" && j.Str(name) != "" {
		j.Fail(name, "invalid host name", "%q cannot be the name of a machine: it %s.", j.Str(name), why)
	}
}
