package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/block"
	"nodejoin/plan/compat"
	"nodejoin/plan/recipe"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
)

// hostName holds a machine's name against those of the others, and on Windows against
// its short form.
func (w *settingWriter) hostName(g block.Setting) {
	name := g.Value.AsString()
	key := strings.ToLower(name)
	if other, taken := w.c.hostNames[key]; taken {
		w.c.Fail(g.At, "duplicate host name", "The machines of the nodes %q and %q would both be named %q, and each "+
			"needs a name of its own. Give it in each node, or with for_each as hostname = each.key.", other, w.m.Name, name)
		return
	}
	w.c.hostNames[key] = w.m.Name
	if w.m.OS != "windows" || len(name) <= netBIOSLength {
		return
	}
	w.c.Warn(g.At, "long host name", "%q has %d characters, and the NetBIOS name of a Windows machine has %d: older "+
		"programs will know it as %s. Use a shorter one where that matters, above all where others begin alike.", name,
		len(name), netBIOSLength, host.NetBIOSName(name))
}

// netBIOSLength is that of the longest NetBIOS name (learn.microsoft.com, SetComputerNameExW).
const netBIOSLength = 15

func (w *settingWriter) host(b block.SettingBlock) {
	w.block = b
	for _, h := range block.AllHostSettings() {
		name := h.Attr.Name
		g, ok := b.Args[name]
		if !ok && w.usual() && h.Usual != cty.NilVal {
			g, ok, name = block.Setting{Value: h.Usual, At: b.Args[block.DefaultsArg].At}, true, block.DefaultsArg
		}
		if !ok || w.wrong(g.At) {
			continue
		}
		if !h.Anywhere && w.ofWindows(fmt.Sprintf("The argument %q", name), g.At) {
			continue
		}
		w.add(g.At, hostSteps[h.Attr.Name](w, g)...)
	}
}

// usual reports whether the host block asks for the usual values.
func (w *settingWriter) usual() bool {
	d, ok := w.block.Args[block.DefaultsArg]
	return ok && d.Value.True()
}

// wrong reports whether something was reported of the value that stands there.
func (w *settingWriter) wrong(at hcl.Range) bool {
	return slices.ContainsFunc(w.c.List, func(d *hcl.Diagnostic) bool {
		return d.Severity == hcl.DiagError && d.Subject != nil && d.Subject.Filename == at.Filename &&
			d.Subject.Start.Byte <= at.Start.Byte && at.End.Byte <= d.Subject.End.Byte
	})
}

// olderThan2022 reports whether a build is that of a release before Windows Server 2022.
func olderThan2022(build string) bool {
	r, _, ok := compat.WindowsRelease(build)
	return !ok || r.Number < 20348
}

func access(text string) host.Access { return host.Access(text) }

// reboot and rebootTimes are told in the order of rebootSettings.
func (w *settingWriter) reboot(g block.Setting) {
	w.out.Reboot = &recipe.Reboot{Policy: g.Value.AsString(), Source: w.c.Files.Place(g.At)}
	w.note("reboot", g.At)
	if _, given := w.block.Args["reboot_times"]; w.out.Reboot.Policy == kinds.RebootWindow && !given {
		w.c.FailOn(w.m.Name, g.At, "missing argument",
			"With reboot = \"window\" the machine of node %q is never rebooted unless \"reboot_times\" says when.", w.m.Name)
	}
}

func (w *settingWriter) rebootTimes(g block.Setting) {
	if said, given := w.block.Args["reboot"]; given && w.wrong(said.At) {
		return // it may have meant these times
	}
	if w.out.Reboot == nil || w.out.Reboot.Policy != kinds.RebootWindow {
		w.c.FailOn(w.m.Name, g.At, "argument without effect",
			"Node %q has no reboot = \"window\", so these times have no effect. Add it, or remove them.", w.m.Name)
		return
	}
	times := block.SettingBlock{Args: map[string]block.Setting{"reboot_times": g}}
	w.out.Reboot.Windows = slices.Clone(times.Texts("reboot_times"))
	if len(w.out.Reboot.Windows) == 0 {
		w.c.FailOn(w.m.Name, g.At, "missing value", "An empty list is no time at all, so the machine of node %q is never "+
			"rebooted. Write at least one, or reboot = \"never\".", w.m.Name)
	}
}

// hostSteps are the steps that a value of an argument of the host block asks for, on a machine.
var hostSteps = map[string]func(w *settingWriter, g block.Setting) []recipe.Setting{
	"hostname": func(w *settingWriter, g block.Setting) []recipe.Setting {
		w.hostName(g)
		return recipe.HostName(g.Value.AsString(), w.m.OS)
	},
	"long_paths": func(_ *settingWriter, g block.Setting) []recipe.Setting { return recipe.LongPaths(g.Value.True()) },
	"page_file": func(_ *settingWriter, g block.Setting) []recipe.Setting {
		n, _ := g.Value.AsBigFloat().Int64()
		return recipe.PageFile(n)
	},
	"crash_dump": func(_ *settingWriter,
		g block.Setting) []recipe.Setting {
		return recipe.CrashDump(g.Value.AsString())
	},
	"windows_update": func(_ *settingWriter, g block.Setting) []recipe.Setting {
		return recipe.WindowsUpdate(g.Value.AsString())
	},
	"defender_exclusions": func(w *settingWriter, g block.Setting) []recipe.Setting {
		if g.Value.False() {
			if !w.usual() {
				w.c.FailOn(w.m.Name, g.At, "argument without effect",
					"defender_exclusions = false leaves the machine as it is. Remove it.")
			}
			return nil
		}
		if w.c.Cluster == nil {
			if !w.usual() {
				w.c.FailOn(w.m.Name, g.At, "argument without effect",
					"Node %q joins no cluster, so it has no programs for \"defender_exclusions\". Remove it.", w.m.Name)
			}
			return nil
		}
		return recipe.DefenderExclusions(recipe.NodePrograms(w.c.Cluster.Base.Runtime.Kind))
	},
	"static_address": func(w *settingWriter, g block.Setting) []recipe.Setting {
		if w.m.GivenBuild != "" && !olderThan2022(w.m.GivenBuild) {
			w.c.FailOn(w.m.Name, g.At, "argument without effect", "Node %q has build %s, and from Windows Server 2022 on "+
				"HNS keeps a static address by itself. Remove \"static_address\".", w.m.Name, w.m.GivenBuild)
			return nil
		}
		return recipe.StaticAddress(true)
	},
	"smb_names": func(_ *settingWriter, g block.Setting) []recipe.Setting { return recipe.SMBNames(g.Value.True()) },
	"tcp_keepalive": func(_ *settingWriter, g block.Setting) []recipe.Setting {
		d, err := time.ParseDuration(g.Value.AsString())
		if err != nil {
			return nil // reported
		}
		return recipe.KeepAlive(d)
	},
	"trusted_cas": func(_ *settingWriter, g block.Setting) []recipe.Setting {
		return recipe.TrustedCAs(block.SettingBlock{Args: map[string]block.Setting{"": g}}.Texts(""))
	},
	"dynamic_ports": func(w *settingWriter, g block.Setting) []recipe.Setting {
		r, why := block.DynamicRange(g.Value.AsString())
		if why != "" || !w.dynamicPorts(g, r) {
			return nil
		}
		return recipe.DynamicPorts(r)
	},
	"reserved_ports": func(w *settingWriter, g block.Setting) []recipe.Setting {
		list := portsOf(g)
		for _, r := range list {
			for _, p := range w.boundPorts() {
				if p.protocol == r.Protocol && r.First <= p.port && p.port <= r.Last {
					w.c.FailOn(w.m.Name, g.At, "ports of the node", "%s of node %q has port %d/%s, and a program may not get a "+
						"reserved port even if it asks for it. Leave it out of \"reserved_ports\".", p.program, w.m.Name, p.port,
						p.protocol)
					return nil
				}
			}
		}
		return recipe.ReservedPorts(list)
	},
	"features": func(w *settingWriter, g block.Setting) []recipe.Setting {
		return recipe.Features(block.SettingBlock{Args: map[string]block.Setting{"features": g}}.Texts("features"))
	},
	"reboot": func(w *settingWriter, g block.Setting) []recipe.Setting {
		w.reboot(g)
		return nil
	},
	"reboot_times": func(w *settingWriter, g block.Setting) []recipe.Setting {
		w.rebootTimes(g)
		return nil
	},
}
