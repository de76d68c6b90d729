package block

import (
	"maps"
	"slices"
	"time"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/eval"
	"nodejoin/plan/names"
	"nodejoin/plan/recipe"
)

var servicesSpec = &eval.Spec{Name: "services", One: true, Doc: "how the programs of a Windows node run as services",
	Attrs: []eval.Attr{
		{Name: "manager", Typ: cty.String, Doc: "\"native\" (default): kubelet and kube-proxy are services themselves, " +
			"and nodejoin's agent runs flanneld; \"nssm\": nssm runs all three, of the artifact \"nssm\""},
		{Name: "priority", Typ: cty.String, Doc: "priority of the kubelet: \"normal\" (default), \"above_normal\" or " +
			"\"high\", so that it has its share of a busy processor"},
		{Name: "log_dir", Typ: cty.String, Doc: "folder in which each service has a folder for its log, default " +
			"\"C:\\\\var\\\\log\"; logs of pods stay in C:\\var\\log\\pods"},
		{Name: "log_size", Typ: cty.Number,
			Doc: "size in MiB at which the log of the kubelet or kube-proxy is rotated, default 100"},
		{Name: "log_age", Typ: cty.String,
			Doc: "after how long a rotated log is removed, default \"168h\"; nssm removes none"},
		{Name: "restart_delay", Typ: cty.String,
			Doc: "time until a service that has failed is started again, default \"10s\""},
		{Name: "restart_reset", Typ: cty.String,
			Doc: "time without a failure after which earlier failures are forgotten, default \"24h\""},
		{Name: keepAttr.Name, Typ: cty.Bool, Doc: "nssm stays on the machine when the plan no longer has it"},
	}}

var managers = []string{"native", "nssm"}

func (j *settingJudge) services() {
	j.oneOf("manager", managers)
	j.oneOf("priority", slices.Sorted(maps.Keys(recipe.Priorities)))
	if d := j.Str("log_dir"); d != "" {
		if why := names.BadPath("windows", d); why != "" {
			j.Fail("log_dir", "invalid path", "%q cannot be a folder on windows: %s.", d, why)
		}
	}
	j.Int("log_size", 1, 4095, 0) // nssm keeps it in bytes, in 32 bits
	j.Duration("log_age", time.Hour, 10000*time.Hour, 0)
	j.Duration("restart_delay", time.Second, time.Hour, 0)
	j.Duration("restart_reset", time.Minute, 10000*time.Hour, 0)
}
