package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// hostSetting is an argument of the host block.
type hostSetting struct {
	attr eval.Attr
	// judge finds what is wrong with the value, wherever it stands; nil = nothing can be.
	judge func(j *settingJudge, name string)
	// steps that the value asks for, on a machine.
	steps func(w *settingWriter, g setting) []recipe.Setting
	// anywhere: not of Windows alone.
	anywhere bool
	// usual is the value that "defaults" gives, where the argument is not given; cty.NilVal = none.
	usual cty.Value
}

// hostSettings are the arguments of the host block. A setting that is not given is left as
// the machine has it, or with "defaults" is as those who run many Windows nodes set it: the
// ports, updates and names of SMB shares as kubernetes-sigs/image-builder (ansible/windows,
// systemprep), the exclusions as it and openshift/windows-machine-config-operator, the
// keep-alive as kubernetes cluster/gce/windows. Nobody of them turns on long paths; volumes of
// pods come near to the limit. A page file is for a machine's memory and disk to say.
var hostSettings = []hostSetting{
	{attr: eval.Attr{Name: "hostname", Typ: cty.String, Doc: "the machine's own name: letters, digits and '-', at most 63, without a domain; each machine has its own, so it mostly stands in a node (hostname = each.key); on Windows and Linux; counts on Windows after a reboot"},
		judge: func(j *settingJudge, name string) { j.hostName(name) },
		steps: func(w *settingWriter, g setting) []recipe.Setting {
			w.hostName(g)
			return recipe.HostName(g.value.AsString(), w.m.OS)
		}, anywhere: true},
	{attr: eval.Attr{Name: "long_paths", Typ: cty.Bool, Doc: "programs may use paths of more than 260 characters, which volumes of pods come near to; counts for programs started later"},
		usual: cty.True,
		steps: func(_ *settingWriter, g setting) []recipe.Setting { return recipe.LongPaths(g.value.True()) }},
	{attr: eval.Attr{Name: "page_file", Typ: cty.Number, Doc: "fixed size of the page file of drive C: in MiB, for example 8096; counts after a reboot"},
		judge: func(j *settingJudge, name string) { j.Int(name, 16, 1<<20, 0) },
		steps: func(_ *settingWriter, g setting) []recipe.Setting {
			n, _ := g.value.AsBigFloat().Int64()
			return recipe.PageFile(n)
		}},
	{attr: eval.Attr{Name: "crash_dump", Typ: cty.String, Doc: "what is kept when Windows crashes: \"none\", \"small\", \"kernel\", \"complete\" or \"automatic\"; counts after a reboot"},
		judge: func(j *settingJudge, name string) {
			j.oneOf(name, slices.Sorted(maps.Keys(recipe.CrashDumps)))
		},
		steps: func(_ *settingWriter, g setting) []recipe.Setting { return recipe.CrashDump(g.value.AsString()) }},
	{attr: eval.Attr{Name: "windows_update", Typ: cty.String, Doc: "how updates come: \"off\" (only by hand), \"notify\" or \"download\" (installed by hand); updates that come by themselves have broken pod networks and reboot nodes that were not drained"},
		usual: cty.StringVal("off"),
		judge: func(j *settingJudge, name string) {
			j.oneOf(name, slices.Sorted(maps.Keys(recipe.WindowsUpdates)))
		},
		steps: func(_ *settingWriter, g setting) []recipe.Setting { return recipe.WindowsUpdate(g.value.AsString()) }},
	{attr: eval.Attr{Name: "defender_exclusions", Typ: cty.Bool, Doc: "Defender does not scan the programs of the node and the folder of its images as they are used, by policy"},
		usual: cty.True,
		steps: func(w *settingWriter, g setting) []recipe.Setting {
			if g.value.False() {
				if !w.usual() {
					w.c.FailOn(w.m.Name, g.at, "argument without effect", "defender_exclusions = false leaves the machine as it is. Remove it.")
				}
				return nil
			}
			if w.c.cluster == nil {
				if !w.usual() {
					w.c.FailOn(w.m.Name, g.at, "argument without effect", "Node %q joins no cluster, so it has no programs for \"defender_exclusions\". Remove it.", w.m.Name)
				}
				return nil
			}
			return recipe.DefenderExclusions(recipe.NodePrograms(w.c.cluster.base.Runtime.Kind))
		}},
	{attr: eval.Attr{Name: "static_address", Typ: cty.Bool, Doc: "the machine's address is static: HNS keeps it when it makes a virtual switch (needed before Windows Server 2022)"},
		judge: func(j *settingJudge, name string) { j.onlyTrue(name) },
		steps: func(w *settingWriter, g setting) []recipe.Setting {
			if w.m.build != "" && !olderThan2022(w.m.build) {
				w.c.FailOn(w.m.Name, g.at, "argument without effect", "Node %q has build %s, and from Windows Server 2022 on HNS keeps a static address by itself. Remove \"static_address\".", w.m.Name, w.m.build)
				return nil
			}
			return recipe.StaticAddress(true)
		}},
	{attr: eval.Attr{Name: "smb_names", Typ: cty.Bool, Doc: "containers find SMB shares by name under containerd"},
		usual: cty.True,
		steps: func(_ *settingWriter, g setting) []recipe.Setting { return recipe.SMBNames(g.value.True()) }},
	{attr: eval.Attr{Name: "tcp_keepalive", Typ: cty.String, Doc: "silence after which the other side of a TCP connection is asked whether it is there, \"60s\" (of Windows: two hours), so that a lost API server is noticed; counts after a reboot"},
		usual: cty.StringVal("60s"),
		judge: func(j *settingJudge, name string) { j.Duration(name, time.Second, 24*time.Hour, 0) },
		steps: func(_ *settingWriter, g setting) []recipe.Setting {
			d, err := time.ParseDuration(g.value.AsString())
			if err != nil {
				return nil // reported
			}
			return recipe.KeepAlive(d)
		}},
	{attr: eval.Attr{Name: "trusted_cas", Typ: cty.List(cty.String), Doc: "certificate authorities that the machine's programs trust, each in PEM, as file(\"ca.pem\") gives it; on Windows and Linux"},
		judge: func(j *settingJudge, name string) { j.authorities(name) },
		steps: func(_ *settingWriter, g setting) []recipe.Setting {
			return recipe.TrustedCAs(settingBlock{args: map[string]setting{"": g}}.texts(""))
		}, anywhere: true},
}

var hostSpec = func() *eval.Spec {
	s := &eval.Spec{Name: "host", One: true, Doc: "settings of the machine, most of Windows, that a node does better with; what is not given stays as it is, or becomes again what it was"}
	usual := ""
	for _, h := range allHostSettings() {
		s.Attrs = append(s.Attrs, h.attr)
		if h.usual != cty.NilVal {
			usual += fmt.Sprintf(", %s = %s", h.attr.Name, hclwrite.TokensForValue(h.usual).Bytes())
		}
	}
	s.Attrs = append(s.Attrs, eval.Attr{Name: defaultsArg, Typ: cty.Bool, Doc: "settings that have proved themselves on Windows nodes, each where it is not given: " + usual[2:]})
	return s
}()

// defaultsArg asks for the usual values of all other settings.
const defaultsArg = "defaults"

func allHostSettings() []hostSetting {
	return slices.Concat(hostSettings, portSettings, rebootSettings)
}

func (j *settingJudge) host() {
	for _, h := range allHostSettings() {
		if _, given := j.Values[h.attr.Name]; given && h.judge != nil {
			h.judge(j, h.attr.Name)
		}
	}
}

// authorities judges a list of certificates: each element is one or more authorities in
// PEM, and none comes twice.
func (j *settingJudge) authorities(name string) {
	seen := map[string]bool{}
	for i, text := range j.Strs(name) {
		list, err := kinds.Authorities(text)
		if err != nil {
			j.FailAt(j.AtIndex(name, i), "invalid certificate", "This cannot be an authority to trust: %v. Give the authority's certificate in PEM, for example file(\"ca.pem\").", err)
		}
		for _, ca := range list {
			if seen[string(ca.Raw)] {
				j.FailAt(j.AtIndex(name, i), "duplicate certificate", "The authority %s is in this list twice. Remove one of the two.", ca.Subject)
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

// hostName holds a machine's name against those of the others, and on Windows against
// its short form.
func (w *settingWriter) hostName(g setting) {
	name := g.value.AsString()
	key := strings.ToLower(name)
	if other, taken := w.c.hostNames[key]; taken {
		w.c.Fail(g.at, "duplicate host name", "The machines of the nodes %q and %q would both be named %q, and each needs a name of its own. Give it in each node, or with for_each as hostname = each.key.", other, w.m.Name, name)
		return
	}
	w.c.hostNames[key] = w.m.Name
	if w.m.OS != "windows" || len(name) <= netBIOSLength {
		return
	}
	w.c.Warn(g.at, "long host name", "%q has %d characters, and the NetBIOS name of a Windows machine has %d: older programs will know it as %s. Use a shorter one where that matters, above all where others begin alike.", name, len(name), netBIOSLength, host.NetBIOSName(name))
}

// netBIOSLength is that of the longest NetBIOS name (learn.microsoft.com, SetComputerNameExW).
const netBIOSLength = 15

func (j *settingJudge) oneOf(name string, words []string) {
	if v := j.Str(name); v != "" && !slices.Contains(words, v) {
		j.Fail(name, "unknown value", "%q is nothing that %q can be. Use %s.%s", v, name, eval.OneOf(words), eval.DidYouMean(v, words))
	}
}

// onlyTrue is for what can be asked for, and not against.
func (j *settingJudge) onlyTrue(name string) {
	if !j.Bool(name) {
		j.Fail(name, "argument without effect", "%s = false leaves the machine as it is. Remove it.", name)
	}
}

func (w *settingWriter) host(b settingBlock) {
	w.block = b
	for _, h := range allHostSettings() {
		name := h.attr.Name
		g, ok := b.args[name]
		if !ok && w.usual() && h.usual != cty.NilVal {
			g, ok, name = setting{value: h.usual, at: b.args[defaultsArg].at}, true, defaultsArg
		}
		if !ok || w.wrong(g.at) {
			continue
		}
		if !h.anywhere && w.ofWindows(fmt.Sprintf("The argument %q", name), g.at) {
			continue
		}
		w.add(g.at, h.steps(w, g)...)
	}
}

// usual tells whether the host block asks for the usual values.
func (w *settingWriter) usual() bool {
	d, ok := w.block.args[defaultsArg]
	return ok && d.value.True()
}

// wrong tells whether something was reported of the value that stands there.
func (w *settingWriter) wrong(at hcl.Range) bool {
	return slices.ContainsFunc(w.c.List, func(d *hcl.Diagnostic) bool {
		return d.Severity == hcl.DiagError && d.Subject != nil && d.Subject.Filename == at.Filename && d.Subject.Start.Byte <= at.Start.Byte && at.End.Byte <= d.Subject.End.Byte
	})
}

// olderThan2022 tells whether a build is that of a release before Windows Server 2022.
func olderThan2022(build string) bool {
	r, _, ok := compat.WindowsRelease(build)
	return !ok || r.Number < 20348
}

func access(text string) host.Access { return host.Access(text) }
