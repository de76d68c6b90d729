package block

import (
	"regexp"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/steps/kinds"
)

// rebootSettings are the arguments of the host block for features of Windows, and for
// reboots.
var rebootSettings = []hostSetting{
	{Attr: eval.Attr{Name: "features", Typ: eval.Strings, Doc: "optional features of Windows that are on, by their " +
		"names: \"Containers\", \"Microsoft-Hyper-V\"; they work after a reboot"},
		judge: func(j *settingJudge, name string) { j.features(name) }},
	{Attr: eval.Attr{Name: "reboot", Typ: cty.String, Doc: "whether apply reboots the machine for settings that " +
		"take effect only after a reboot: \"auto\", \"window\" (at reboot_times), \"never\" (default); a Node that is " +
		"Ready is drained before"},
		judge: func(j *settingJudge, name string) {
			j.oneOf(name, []string{kinds.RebootAuto, kinds.RebootNever, kinds.RebootWindow})
		}},
	{Attr: eval.Attr{Name: "reboot_times", Typ: eval.Strings,
		Doc: "with reboot = \"window\": times of the week, in UTC, \"Sat,Sun 22:00-04:00\" or \"01:00-05:00\""},
		judge: (*settingJudge).timesOfWeek},
}

// featureRE is a name of a feature as DISM lists it.
var featureRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (j *settingJudge) features(name string) {
	seen := map[string]bool{}
	for i, f := range j.Strs(name) {
		key := strings.ToLower(f)
		switch {
		case !featureRE.MatchString(f) || len(f) > maxStepName-len("feature_"):
			j.FailAt(j.AtIndex(name, i), "invalid name",
				"%q cannot be the name of a feature of Windows, such as \"Containers\".", f)
		case seen[key]:
			j.FailAt(j.AtIndex(name, i), "duplicate name", "The feature %q is in this list already. Remove it.", f)
		}
		seen[key] = true
	}
}

// timesOfWeek judges a list of times of the week.
func (j *settingJudge) timesOfWeek(name string) {
	for i, t := range j.Strs(name) {
		if _, err := kinds.ParseRebootTime(t); err != nil {
			j.FailAt(j.AtIndex(name, i), "invalid time", "%q is not a time of the week. Write days and a span in UTC, for "+
				"example \"Sat,Sun 22:00-04:00\", or the span alone for every day.", t)
		}
	}
}
