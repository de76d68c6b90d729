package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/preflight"
)

// serviceSymptoms are about the programs of a node, how they are registered, and what the cluster says of
// the Node.
var serviceSymptoms = []symptom{
	{id: "node-service-stopped", severity: steps.SeverityError,
		why: "a node is its services: runtime, kubelet, pod network, kube-proxy", look: stoppedServices},
	{id: "node-not-ready", severity: steps.SeverityError, why: "no pod is started on a Node that is not Ready",
		look: nodeNotReady},
	{id: "node-pressure", severity: steps.SeverityError,
		why: "the cluster sets such a taint while a Node lacks something, and starts no pods there; if disk or " +
			"memory run short, the kubelet evicts pods too", look: nodePressure},
	{id: "windows-update", severity: steps.SeverityError, os: "windows",
		why: "the pod network needs what some cumulative updates brought, and others break it; a machine may have got " +
			"another one since it joined", look: windowsUpdate},
	{id: "firewall-policy", severity: steps.SeverityError, os: "windows",
		why: "group policy decides which rules of the firewall are in force: those of nodejoin are stored and have no " +
			"effect", look: firewallPolicy},
	{id: "plan-unfinished", severity: steps.SeverityWarning,
		why:  "an apply that reboots its own machine leaves the rest of the plan to a service that runs once",
		look: planUnfinished},
	{id: "service-flags", severity: steps.SeverityError, os: "windows",
		why: "without --windows-service the program never answers the service manager, which kills it after 30 " +
			"seconds (no Kubernetes program knows the --service of some guides)", look: serviceFlags},
	{id: "service-wrapper", severity: steps.SeverityWarning, os: "windows",
		why: "the output of a program under nssm is lost unless nssm is set to keep it, and with it why the program " +
			"ended", look: serviceWrapper},
	{id: "kube-proxy-name", severity: steps.SeverityError, os: "windows",
		why: "kube-proxy mistakes its node's endpoints for another's and deletes the containers' adapters and HNS " +
			"endpoints", look: kubeProxyName},
	{id: "dns", severity: steps.SeverityError,
		why: "pods ask the name server that the kubelet gives them. On Windows a pod has only one DNS suffix, so " +
			"names with a dot must be complete: kubernetes.default is not found, " +
			"kubernetes.default.svc.cluster.local is", look: clusterDNS},
}

func windowsUpdate(ctx context.Context, x *diagnosis) (out []finding, err error) {
	_, list := of[*preflight.Preflight](x)
	for _, q := range list {
		found, err := preflight.Updates(ctx, x.r, x.e, q)
		for _, f := range found {
			out = append(out, finding{observed: observed{f.Observed, f.Remedy}})
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// firewallProfiles are the profiles of the firewall by the names that group policy gives their keys
// (learn.microsoft.com, WindowsFirewall.admx).
var firewallProfiles = []struct{ key, name string }{{"DomainProfile", "domain"}, {"StandardProfile", "private"},
	{"PublicProfile", "public"}}

func firewallPolicy(ctx context.Context, x *diagnosis) ([]finding, error) {
	if _, rules := of[*kinds.FirewallRule](x); len(rules) == 0 {
		return nil, nil
	}
	var dead []string
	for _, p := range firewallProfiles {
		v, there, err := host.LookupRegistry(ctx, x.r, `HKLM\SOFTWARE\Policies\Microsoft\WindowsFirewall\`+p.key,
			"AllowLocalPolicyMerge")
		if err != nil {
			return nil, err
		}
		if there && v.Number == 0 {
			dead = append(dead, p.name)
		}
	}
	if dead == nil {
		return nil, nil
	}
	return []finding{{observed: observed{"group policy turns the machine's own firewall rules off in these profiles: " +
		strings.Join(dead, ", "), "have the policy apply local rules (AllowLocalPolicyMerge), or make the rules of the " +
		"plan in the policy"}}}, nil
}

func stoppedServices(ctx context.Context, x *diagnosis) (out []finding, err error) {
	ids, list := of[*kinds.Service](x)
	for i, s := range list {
		if !s.Running() {
			continue
		}
		have, there, err := x.registered(ctx, s.Name)
		if err != nil {
			return out, err
		}
		about := ""
		if s.Log != "" {
			about = "; its log is " + s.Log
		}
		switch {
		case !there:
			out = append(out, finding{observed{fmt.Sprintf("service %s is not registered", s.Name), "apply the plan"},
				[]string{ids[i]}, nil})
		case have.State == host.ServiceRunning:
		case !steps.Ours(have, x.e.Record):
			out = append(out,
				finding{observed: observed{fmt.Sprintf("service %s is %s and was not registered by nodejoin", s.Name,
					have.State), steps.ForeignRemedy(s.Name)}})
		default:
			what := fmt.Sprintf("service %s is %s", s.Name, have.State)
			if have.ExitCode != 0 {
				what += fmt.Sprintf(", its exit code was %d", have.ExitCode)
			}
			out = append(out, finding{observed{what + about, "read its log, and start it: apply the plan"},
				[]string{ids[i]}, nil})
		}
	}
	return out, nil
}

// ResumeService is the service that finishes a plan after the reboot of nodejoin's own machine. It
// unregisters itself.
const ResumeService = "nodejoin-resume"

func planUnfinished(ctx context.Context, x *diagnosis) ([]finding, error) {
	have, there, err := x.registered(ctx, ResumeService)
	if err != nil || !there {
		return nil, err
	}
	s := observed{"the service " + ResumeService + " is registered: it finishes a plan after the next boot",
		"reboot the machine when it suits; a leave removes the service"}
	if have.State == host.ServiceRunning {
		s = observed{"the service " + ResumeService + " is finishing a plan", "wait for it; its log says what it does"}
	}
	return []finding{{observed: s}}, nil
}

func nodeNotReady(_ context.Context, x *diagnosis) ([]finding, error) {
	n := x.c.Node
	switch {
	case x.c.NodeWhy != "":
		return nil, asked(x.c.NodeWhy)
	case n == nil:
		return []finding{{observed: observed{"the cluster has no Node " + x.e.Node,
			"apply the plan, which joins it again; if that fails, read the kubelet's log"}}}, nil
	case !n.Ready:
		return []finding{{observed: observed{kinds.NotReady(*n),
			"fix the other findings first; then read the kubelet's log"}}}, nil
	}
	return nil, nil
}

// pressures are the taints that the cluster gives Nodes for a lack of something, with what ends them
// (kubernetes.io, "Well-Known Labels, Annotations and Taints", "Node-pressure Eviction").
var pressures = map[string]string{
	"node.kubernetes.io/disk-pressure": "free space on the volumes of the kubelet (10 percent) and of " +
		"images (15 percent), or set kubelet { config = { evictionHard = { ... } } } in the plan",
	"node.kubernetes.io/memory-pressure": "give the machine more memory, or its pods limits",
	"node.kubernetes.io/pid-pressure":    "find what starts so many processes",
	"node.kubernetes.io/network-unavailable": "check that the network plugin or the cloud's route " +
		"controller runs; it removes the taint",
	"node.cloudprovider.kubernetes.io/uninitialized": "check that the cloud controller manager runs and knows the " +
		"machine; it removes the taint",
}

func nodePressure(_ context.Context, x *diagnosis) (out []finding, err error) {
	if x.c.Node == nil {
		return nil, asked(x.c.NodeWhy)
	}
	for _, t := range x.c.Node.Taints {
		if remedy, ok := pressures[t.Key]; ok {
			out = append(out, finding{observed: observed{fmt.Sprintf("the Node has the taint %s:%s", t.Key, t.Effect), remedy}})
		}
	}
	return out, nil
}

func serviceFlags(ctx context.Context, x *diagnosis) (out []finding, err error) {
	const flag = "--windows-service"
	for _, name := range []string{"kubelet", "kube-proxy"} {
		s, id, ok := x.service(name)
		if !ok || !slices.Contains(s.Command, flag) {
			continue
		}
		have, there, err := x.registered(ctx, name)
		if err != nil {
			return out, err
		}
		if !there || slices.Contains(have.Command, flag) || wrapped(have) {
			continue
		}
		what := fmt.Sprintf("service %s is registered without %s", name, flag)
		if slices.Contains(have.Command, "--service") {
			what += ", but with --service"
		}
		out = append(out, finding{observed{what, "apply the plan, which corrects it"}, []string{id}, nil})
	}
	return out, nil
}

// wrapped reports whether a service is a program under nssm.
func wrapped(s host.Service) bool {
	return len(s.Command) > 0 && strings.EqualFold(host.Base("windows", s.Command[0]), "nssm.exe")
}

// nssm keeps the settings of a service in its key Parameters (nssm.cc, "Usage").
func serviceWrapper(ctx context.Context, x *diagnosis) (out []finding, err error) {
	for _, name := range []string{"kubelet", "flanneld", "kube-proxy"} {
		want, id, planned := x.service(name)
		have, there, err := x.registered(ctx, name)
		if err != nil {
			return out, err
		}
		if !there || !wrapped(have) || planned && wrapped(host.Service{ServiceConfig: want.ServiceConfig}) {
			continue
		}
		for _, value := range []string{"AppStdout", "AppStderr"} {
			_, kept, err := host.LookupRegistry(ctx, x.r, host.CurrentControlSet+`Services\`+name+`\Parameters`, value)
			if err != nil {
				return out, err
			}
			if kept {
				continue
			}
			g := finding{observed: observed{fmt.Sprintf("service %s runs under nssm, which does not keep its output "+
				"(%s is not set)", name, value),
				fmt.Sprintf(`nssm set %s %s C:\var\log\%s.log, or let nodejoin register the service`, name, value, name)}}
			if planned && steps.Ours(have, x.e.Record) {
				g.fix = []string{id}
			}
			out = append(out, g)
			break
		}
	}
	return out, nil
}

// errNotYAML is the error of a configuration that its program cannot read.
var errNotYAML = errors.New("is not YAML, so its program does not start")

// configOf reads the YAML file that a flag of a registered service names. path is "" without the flag;
// errNotYAML is a file that cannot be parsed.
func (x *diagnosis) configOf(ctx context.Context, have host.Service, flag string, into any) (path string, err error) {
	path, _ = host.Flag(have.Command, flag)
	if path == "" {
		return "", nil
	}
	b, there, err := x.read(ctx, path)
	if err != nil || !there {
		return path, err
	}
	if err := yaml.Unmarshal(b, into); err != nil {
		return path, fmt.Errorf("%s %w (%w)", path, errNotYAML, err)
	}
	return path, nil
}

func kubeProxyName(ctx context.Context, x *diagnosis) ([]finding, error) {
	_, id, ok := x.service("kube-proxy")
	if !ok {
		return nil, nil
	}
	have, there, err := x.registered(ctx, "kube-proxy")
	if err != nil || !there {
		return nil, err
	}
	var config struct {
		HostnameOverride string `json:"hostnameOverride"`
	}
	path, err := x.configOf(ctx, have, "config", &config)
	broken := errors.Is(err, errNotYAML)
	if err != nil && !broken {
		return nil, err
	}
	name, given := host.Flag(have.Command, "hostname-override")
	if name = cmp.Or(name, config.HostnameOverride); !broken && strings.EqualFold(name, x.e.Node) {
		return nil, nil
	}
	what := "kube-proxy does not know the name of its Node"
	switch {
	case broken:
		what = err.Error()
	case given || name != "":
		what = fmt.Sprintf("kube-proxy is configured for the Node %q instead of %s", name, x.e.Node)
	case strings.EqualFold(x.e.Facts.Hostname, x.e.Node):
		return nil, nil // its default is the machine's name
	}
	g := finding{observed: observed{what, "apply the plan, which gives it the name (hostnameOverride)"},
		fix: []string{id}}
	if _, file, ok := x.file(path); ok {
		g.fix = []string{file, id}
	}
	return []finding{g}, nil
}

func clusterDNS(ctx context.Context, x *diagnosis) (out []finding, err error) {
	_, id, ok := x.service("kubelet")
	if !ok {
		return nil, nil
	}
	have, there, err := x.registered(ctx, "kubelet")
	if err != nil || !there {
		return nil, err
	}
	var config, planned struct {
		ClusterDNS []string `json:"clusterDNS"`
		ResolvConf *string  `json:"resolvConf"`
	}
	path, err := x.configOf(ctx, have, "config", &config)
	broken := errors.Is(err, errNotYAML)
	if err != nil && !broken || path == "" {
		return nil, err
	}
	// A file that no step writes is kubeadm's, a copy from the cluster.
	remedy, fix := "correct the ConfigMap kube-system/kubelet-config, and "+path+", which kubeadm wrote from it",
		[]string(nil)
	if f, file, ok := x.file(path); ok {
		remedy, fix = "apply the plan, which writes "+path, []string{file, id}
		if yaml.Unmarshal([]byte(f.Content), &planned) != nil {
			planned.ClusterDNS = nil // it has values that are not known yet
		}
	}
	if broken {
		return append(out, finding{observed{err.Error(), remedy}, fix, nil}), nil
	}
	if x.e.Facts.OS == "windows" && config.ResolvConf != nil && *config.ResolvConf != "" {
		out = append(out,
			finding{observed{fmt.Sprintf("the kubelet reads its name servers from %s, which Windows does not have",
				*config.ResolvConf), remedy}, fix, nil})
	}
	if len(config.ClusterDNS) == 0 {
		return append(out,
			finding{observed{"the kubelet gives pods no cluster DNS (clusterDNS is empty)", remedy},
				fix, nil}), nil
	}
	if planned.ClusterDNS != nil && !slices.Equal(config.ClusterDNS, planned.ClusterDNS) {
		return append(out,
			finding{observed{fmt.Sprintf("pods ask %s for names instead of %s, as the plan says",
				strings.Join(config.ClusterDNS, ", "), strings.Join(planned.ClusterDNS, ", ")), remedy}, fix, nil}), nil
	}
	if err := asked(x.c.ServicesWhy); err != nil {
		return out, err
	}
	for _, ip := range config.ClusterDNS {
		if !slices.ContainsFunc(x.c.Services, func(s kube.Service) bool { return s.ClusterIP == ip }) {
			out = append(out,
				finding{observed: observed{fmt.Sprintf("pods ask %s for names, but no service of the cluster has "+
					"that address", ip),
					"install the cluster's DNS (CoreDNS) at that address, or set dns_ip in the plan"}})
		}
	}
	return out, nil
}
