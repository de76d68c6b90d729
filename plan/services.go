package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/compat"
	"nodejoin/plan/eval"
	"nodejoin/plan/recipe"
)

var servicesSpec = &eval.Spec{Name: "services", One: true, Doc: "how the programs of a Windows node run as services", Attrs: []eval.Attr{
	{Name: "manager", Typ: cty.String, Doc: "\"native\" (default): kubelet and kube-proxy are services themselves, and nodejoin's agent runs flanneld; \"nssm\": nssm runs all three, of the artifact \"nssm\""},
	{Name: "priority", Typ: cty.String, Doc: "priority of the kubelet: \"normal\" (default), \"above_normal\" or \"high\", so that it has its share of a busy processor"},
	{Name: "log_size", Typ: cty.Number, Doc: "size in MiB at which the log of the kubelet or kube-proxy is rotated, default 100"},
	{Name: "log_age", Typ: cty.String, Doc: "after how long a rotated log is removed, default \"168h\"; nssm removes none"},
	{Name: "restart_delay", Typ: cty.String, Doc: "time until a service that has failed is started again, default \"10s\""},
	{Name: "restart_reset", Typ: cty.String, Doc: "time without failure after which earlier ones do not count, default \"24h\""},
}}

var managers = []string{"native", "nssm"}

func (j *settingJudge) services() {
	j.oneOf("manager", managers)
	j.oneOf("priority", slices.Sorted(maps.Keys(recipe.Priorities)))
	j.Int("log_size", 1, 4095, 0) // nssm keeps it in bytes, in 32 bits
	j.Duration("log_age", time.Hour, 10000*time.Hour, 0)
	j.Duration("restart_delay", time.Second, time.Hour, 0)
	j.Duration("restart_reset", time.Minute, 10000*time.Hour, 0)
}

func (w *settingWriter) services(b settingBlock) {
	if w.windowsOnly("services", b.at) {
		return
	}
	if len(w.c.written["cluster"]) == 0 {
		w.c.FailOn(w.m.Name, b.at, "block without effect", "Node %q joins no cluster, so it has no services of nodejoin. Remove it.", w.m.Name)
		return
	}
	duration := func(name string) time.Duration {
		d, err := time.ParseDuration(b.text(name))
		if err != nil {
			return 0 // not given, or reported
		}
		return d
	}
	s := recipe.Services{NSSM: b.text("manager") == "nssm", Priority: b.text("priority"), RestartDelay: duration("restart_delay"), RestartReset: duration("restart_reset")}
	if _, given := b.args["log_age"]; given {
		s.LogAge = b.text("log_age")
	}
	if g, ok := b.args["log_size"]; ok {
		s.LogSize, _ = g.value.AsBigFloat().Int64()
	}
	if _, known := recipe.Priorities[s.Priority]; s.Priority != "" && !known {
		return // reported
	}
	w.logEffect(b, s.NSSM)
	if g, ok := b.args["manager"]; ok && s.NSSM && w.c.cluster != nil && w.c.cluster.base.Join.Kind == "kubeadm" {
		w.c.FailOn(w.m.Name, g.at, "nssm not possible", "Node %q joins by kubeadm, which starts the kubelet as the service that it is. Leave the manager \"native\", or join in another way.", w.m.Name)
	}
	if g, ok := b.args["priority"]; ok && slices.ContainsFunc(w.m.components["kubelet"].args, func(a string) bool { return flagName(a) == recipe.PriorityFlag }) {
		w.c.FailOn(w.m.Name, g.at, "duplicate flag", "Node %q has --%s in the extra_args of its kubelet, too. Remove one of the two.", w.m.Name, recipe.PriorityFlag)
	}
	w.out.Services = s
}

// logEffect reports what of the logs can have no effect in a version.
func (w *settingWriter) logEffect(b settingBlock, nssm bool) {
	if w.c.cluster == nil {
		return
	}
	k, err := compat.Kubelet(w.c.cluster.Version)
	if err != nil {
		return
	}
	for _, name := range []string{"log_size", "log_age"} {
		g, ok := b.args[name]
		why := ""
		switch {
		case !ok:
			continue
		case nssm && name == "log_age":
			why = "nssm removes no log that it has rotated"
		case nssm:
			continue
		case !k.LogRunner && name == "log_age":
			why = "the programs of Kubernetes " + w.c.cluster.Version + " keep one file of bounded size"
		case k.LogRunner && !k.LogRunnerRotationFlags:
			why = "kube-log-runner of Kubernetes " + w.c.cluster.Version + " keeps one file and has no bound for it (1.34 has)"
		default:
			continue
		}
		remedy := "Remove it."
		if name == "log_size" {
			remedy = "Remove it, or let nssm run the services."
		}
		w.c.FailOn(w.m.Name, g.at, "argument without effect", "On node %q the argument %q has no effect: %s. %s", w.m.Name, name, why, remedy)
	}
}
