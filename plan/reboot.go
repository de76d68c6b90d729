package plan

import (
	"regexp"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
	"nodejoin/steps/kinds"
)

// rebootSettings are the arguments of the host block for features of Windows, and for
// reboots.
var rebootSettings = []hostSetting{
	{attr: eval.Attr{Name: "features", Typ: eval.Strings, Doc: "optional features of Windows that are on, by their names: \"Containers\", \"Microsoft-Hyper-V\"; they work after a reboot"},
		judge: func(j *settingJudge, name string) { j.features(name) },
		steps: func(w *settingWriter, g setting) []recipe.Setting {
			return recipe.Features(settingBlock{args: map[string]setting{"features": g}}.texts("features"))
		}},
	{attr: eval.Attr{Name: "reboot", Typ: cty.String, Doc: "whether apply reboots the machine for what counts after a reboot only: \"auto\", \"window\" (at reboot_times), \"never\" (default); a Node that is Ready is drained before"},
		judge: func(j *settingJudge, name string) {
			j.oneOf(name, []string{kinds.RebootAuto, kinds.RebootNever, kinds.RebootWindow})
		},
		steps: func(w *settingWriter, g setting) []recipe.Setting {
			w.reboot(g)
			return nil
		}},
	{attr: eval.Attr{Name: "reboot_times", Typ: eval.Strings, Doc: "with reboot = \"window\": times of the week, in UTC, \"Sat,Sun 22:00-04:00\" or \"01:00-05:00\""},
		judge: func(j *settingJudge, name string) { j.rebootTimes(name) },
		steps: func(w *settingWriter, g setting) []recipe.Setting {
			w.rebootTimes(g)
			return nil
		}},
}

// featureRE is a name of a feature as DISM lists it.
var featureRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (j *settingJudge) features(name string) {
	seen := map[string]bool{}
	for i, f := range j.Strs(name) {
		key := strings.ToLower(f)
		switch {
		case !featureRE.MatchString(f) || len(f) > maxStepName-len("feature_"):
			j.FailAt(j.AtIndex(name, i), "invalid name", "%q cannot be the name of a feature of Windows, such as \"Containers\".", f)
		case seen[key]:
			j.FailAt(j.AtIndex(name, i), "duplicate name", "The feature %q is in this list already. Remove it.", f)
		}
		seen[key] = true
	}
}

func (j *settingJudge) rebootTimes(name string) {
	for i, t := range j.Strs(name) {
		if _, err := kinds.ParseRebootTime(t); err != nil {
			j.FailAt(j.AtIndex(name, i), "invalid time", "%q is no time of the week. Write days and a span in UTC, for example \"Sat,Sun 22:00-04:00\", or the span alone for every day.", t)
		}
	}
}

// reboot and rebootTimes are told in the order of rebootSettings.
func (w *settingWriter) reboot(g setting) {
	w.out.Reboot = &recipe.Reboot{Policy: g.value.AsString(), Source: w.c.Files.Place(g.at)}
	w.note("reboot", g.at)
	if _, given := w.block.args["reboot_times"]; w.out.Reboot.Policy == kinds.RebootWindow && !given {
		w.c.FailOn(w.m.Name, g.at, "missing argument", "With reboot = \"window\" the machine of node %q is never rebooted unless \"reboot_times\" says when.", w.m.Name)
	}
}

func (w *settingWriter) rebootTimes(g setting) {
	if said, given := w.block.args["reboot"]; given && w.wrong(said.at) {
		return // it may have meant these times
	}
	if w.out.Reboot == nil || w.out.Reboot.Policy != kinds.RebootWindow {
		w.c.FailOn(w.m.Name, g.at, "argument without effect", "Node %q has no reboot = \"window\", so these times count for nothing. Add it, or remove them.", w.m.Name)
		return
	}
	w.out.Reboot.Windows = slices.Clone(settingBlock{args: map[string]setting{"reboot_times": g}}.texts("reboot_times"))
	if len(w.out.Reboot.Windows) == 0 {
		w.c.FailOn(w.m.Name, g.at, "missing value", "An empty list is no time at all, so the machine of node %q is never rebooted. Write at least one, or reboot = \"never\".", w.m.Name)
	}
}
