package plan

import (
	"slices"
	"time"

	"nodejoin/plan/block"
	"nodejoin/plan/recipe"
	"nodejoin/steps/kinds"
)

func (w *settings) host(b block.SettingBlock) {
	for _, a := range b.HostArgs() {
		switch a.Name {
		case "reboot":
			w.Reboot = &recipe.Reboot{Policy: a.Value.AsString(), Source: w.place(a.At)}
			if w.Reboot.Policy == kinds.RebootWindow {
				w.Reboot.Windows = slices.Clone(b.Texts("reboot_times"))
			}
			w.at["reboot"] = a.At
		case "reboot_times": // with reboot
		default:
			w.add(a.At, hostSteps[a.Name](w, a.Setting)...)
		}
	}
}

// hostSteps are the steps that a value of an argument of the host block asks for, on a machine.
var hostSteps = map[string]func(w *settings, g block.Setting) []recipe.Setting{
	"hostname": func(w *settings, g block.Setting) []recipe.Setting {
		return recipe.HostName(g.Value.AsString(), w.m.OS)
	},
	"long_paths": func(_ *settings, g block.Setting) []recipe.Setting { return recipe.LongPaths(g.Value.True()) },
	"page_file": func(_ *settings, g block.Setting) []recipe.Setting {
		n, _ := g.Value.AsBigFloat().Int64()
		return recipe.PageFile(n)
	},
	"crash_dump": func(_ *settings, g block.Setting) []recipe.Setting { return recipe.CrashDump(g.Value.AsString()) },
	"windows_update": func(_ *settings, g block.Setting) []recipe.Setting {
		return recipe.WindowsUpdate(g.Value.AsString())
	},
	"defender_exclusions": func(w *settings, g block.Setting) []recipe.Setting {
		if g.Value.False() || w.cluster == nil {
			return nil
		}
		return recipe.DefenderExclusions(recipe.NodePrograms(w.cluster.Base.Runtime.Kind))
	},
	"static_address": func(_ *settings, _ block.Setting) []recipe.Setting { return recipe.StaticAddress(true) },
	"smb_names":      func(_ *settings, g block.Setting) []recipe.Setting { return recipe.SMBNames(g.Value.True()) },
	"tcp_keepalive": func(_ *settings, g block.Setting) []recipe.Setting {
		d, err := time.ParseDuration(g.Value.AsString())
		if err != nil {
			return nil // reported
		}
		return recipe.KeepAlive(d)
	},
	"trusted_cas": func(_ *settings, g block.Setting) []recipe.Setting { return recipe.TrustedCAs(g.Texts()) },
	"dynamic_ports": func(_ *settings, g block.Setting) []recipe.Setting {
		r, why := block.DynamicRange(g.Value.AsString())
		if why != "" {
			return nil // reported
		}
		return recipe.DynamicPorts(r)
	},
	"reserved_ports": func(_ *settings, g block.Setting) []recipe.Setting {
		return recipe.ReservedPorts(block.ReservedPorts(g))
	},
	"features": func(_ *settings, g block.Setting) []recipe.Setting { return recipe.Features(g.Texts()) },
}
