package doctor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/doctor"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/preflight"
	"nodejoin/steps/stepstest"
)

var kubeadmProxy = kube.DaemonSet{Namespace: "kube-system", Name: "kube-proxy", NamesOS: true}

const podSubnet = `C:\run\flannel\subnet.env`

// symptomCases has, for each symptom, what provokes it and what is similar but does not. The controller finds the
// symptoms without a case here (engine.TestDiagnose).
var symptomCases = []struct {
	id      string
	provoke func(p *fixture)
	near    func(p *fixture)
	has     string   // part of what is seen
	fix     []string // steps, or "restart NAME"
}{
	{id: "node-service-stopped", provoke: func(p *fixture) {
		p.do(func(h host.Host) error { return h.StopService(p.t.Context(), "flanneld") })
	},
		near: func(p *fixture) {
			p.list = append(p.list,
				stepstest.Spec("service", "idle",
					&kinds.Service{ServiceConfig: host.ServiceConfig{Name: "idle", Start: host.StartManual,
						Command: []string{`C:\x\kubelet-run.exe`}}, State: host.ServiceStopped}))
		}, has: `service flanneld is stopped; its log is C:\x\flanneld.log`, fix: []string{"flanneld"}},
	{id: "node-not-ready", provoke: func(p *fixture) {
		p.view.Node.Ready, p.view.Node.ReadyReason = false, "KubeletNotReady: container runtime network not ready"
	},
		near: func(p *fixture) { p.view.Node.Unschedulable = true }, has: "the Node is not Ready: KubeletNotReady"},
	{id: "node-pressure", provoke: func(p *fixture) {
		p.view.Node.Taints = []kube.Taint{{Key: "node.kubernetes.io/disk-pressure", Effect: "NoSchedule"}}
	}, near: func(p *fixture) {
		p.view.Node.Taints = []kube.Taint{{Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule"},
			{Key: "os", Value: "windows", Effect: "NoSchedule"}}
	}, has: "the Node has the taint node.kubernetes.io/disk-pressure:NoSchedule"},
	{id: "plan-unfinished", provoke: func(p *fixture) {
		p.file(`C:\x\resume.exe`, "program")
		p.do(func(h host.Host) error {
			return h.CreateService(p.t.Context(), host.ServiceConfig{Name: doctor.ResumeService,
				Command: []string{`C:\x\resume.exe`}, Start: host.StartAuto})
		})
	}, near: func(p *fixture) { p.file(`C:\ProgramData\nodejoin\resume\resume.json`, "{}") },
		has: "finishes a plan after the next boot"},
	{id: "service-flags", provoke: func(p *fixture) {
		p.register("kubelet", func(c *host.ServiceConfig) { c.Command[1] = "--service" })
	}, near: func(p *fixture) {
		p.register("kubelet", func(c *host.ServiceConfig) { c.Command = append(c.Command, "--v=4") })
	}, has: "kubelet is registered without --windows-service, but with --service", fix: []string{"kubelet"}},
	{id: "service-wrapper", provoke: func(p *fixture) { p.nssm("AppStdout") }, near: func(p *fixture) {
		p.nssm("AppStdout", "AppStderr")
	},
		has: "kube-proxy runs under nssm, which does not keep its output (AppStderr is not set)",
		fix: []string{"kube_proxy"}},
	{id: "kube-proxy-name", provoke: func(p *fixture) { p.file(`C:\x\kube-proxy.yaml`, "mode: kernelspace\n") },
		near: func(p *fixture) {
			p.config.Hostname = "WIN-1"
			p.file(`C:\x\kube-proxy.yaml`, "mode: kernelspace\n")
		}, has: "kube-proxy does not know the name of its Node", fix: []string{"kube_proxy_config", "kube_proxy"}},
	{id: "dns", provoke: func(p *fixture) { p.view.Services[1].ClusterIP = "10.96.0.11" },
		near: func(p *fixture) { p.view.Services[1].Namespace = "elsewhere" },
		has:  "pods ask 10.96.0.10 for names, but no service of the cluster has that address"},
	{id: "credential-ended", provoke: func(p *fixture) { p.token(time.Hour, 61*time.Minute) },
		near: func(p *fixture) { p.token(time.Hour, 59*time.Minute) }, has: `the token in C:\x\x.token ended at`,
		fix: []string{"token"}},
	{id: "credential-ends", provoke: func(p *fixture) { p.token(time.Hour, 41*time.Minute) },
		near: func(p *fixture) { p.token(time.Hour, 39*time.Minute) }, has: `the token in C:\x\x.token ends at`,
		fix: []string{"token"}},
	{id: "windows-update", provoke: func(p *fixture) { p.updated(10000) }, near: func(p *fixture) { p.updated(9999) },
		has: "the lowest that works is 10.0.20348.10000"},
	{id: "firewall-policy", provoke: func(p *fixture) { p.mergesRules(0) }, near: func(p *fixture) { p.mergesRules(1) },
		has: "rules off in these profiles: public"},
	{id: "network-adapter", provoke: func(p *fixture) { p.quirks.Networks = nil },
		near: func(p *fixture) {
			p.quirks.Networks[0].Name = "Flannel.4096"
		}, has: "there is no HNS network flannel.4096", fix: []string{"flannel_network", "restart flanneld"}},
	{id: "network-address", provoke: func(p *fixture) { p.quirks.Networks[0].ManagementIP = "" },
		near: func(p *fixture) { p.quirks.Networks[0].Subnets = nil }, has: "flannel.4096 has no management address",
		fix: []string{"restart flanneld"}},
	{id: "subnet-file", provoke: func(p *fixture) { p.remove(podSubnet) },
		near: func(p *fixture) {
			p.file(podSubnet, strings.ReplaceAll(subnetEnv, "\n", "\r\n")+"FLANNEL_IPV6_NETWORK=\r\n")
		}, has: podSubnet + " is missing", fix: []string{"restart flanneld"}},
	{id: "stale-subnet", provoke: func(p *fixture) { p.view.Node.PodCIDR = "10.244.9.0/24" },
		near: func(p *fixture) { p.file(`C:\k\SourceVip.json`, `{"ip4":{"ip":"10.244.3.9/24"}}`) },
		has:  "outside of the Node's pod network 10.244.9.0/24", fix: []string{"flannel_network", "source_vip",
			"kube_proxy_config", "kube_proxy"}},
	{id: "outbound-exceptions", provoke: func(p *fixture) {
		p.file(`C:\x\10-flannel.conflist`, strings.Replace(cniConfV2, `"10.96.0.0/12"`, `"0.0.0.0/0"`, 1))
	}, near: func(p *fixture) {
		p.file(`C:\x\10-flannel.conflist`, strings.Replace(cniConfV2, `"10.244.0.0/16","10.96.0.0/12"`,
			`"10.96.0.0/12", "10.244.0.0/16"`, 1))
	}, has: "does not except 10.96.0.0/12 from address translation, and also excepts 0.0.0.0/0",
		fix: []string{"cni_conf"}},
	{id: "cni-other", provoke: func(p *fixture) { p.file(`C:\x\0-containerd-nat.json`, "{}") },
		near: func(p *fixture) { p.file(`C:\x\20-other.conf`, "{}") },
		has:  `C:\x\0-containerd-nat.json is read in place of 10-flannel.conflist`, fix: []string{"cni_conf_first"}},
	{id: "mac-spoofing", provoke: func(p *fixture) {
		p.bridge("L2Bridge")
		p.registry(`HKLM\HARDWARE\DESCRIPTION\System\BIOS`, "SystemProductName", "Virtual Machine")
	}, near: func(p *fixture) {
		p.registry(`HKLM\HARDWARE\DESCRIPTION\System\BIOS`, "SystemProductName", "Virtual Machine")
	}, has: "the machine is virtual (Virtual Machine), and its pod network flannel.4096 is an L2 bridge"},
	{id: "pods-creating", provoke: func(p *fixture) { p.pod("ContainerCreating", 11*time.Minute) },
		near: func(p *fixture) { p.pod("ContainerCreating", 9*time.Minute) },
		has:  "pod d/web is not running after 11m0s: ContainerCreating"},
	{id: "daemon-set", provoke: func(p *fixture) { p.daemonSet("proxy", false, "CrashLoopBackOff: exec", time.Hour) },
		near: func(p *fixture) { p.daemonSet("proxy", true, "CrashLoopBackOff: exec", time.Hour) },
		has:  "DaemonSet d/proxy names no operating system, and its pod d/proxy-x is not running here: Crash"},
	{id: "daemon-set", provoke: func(p *fixture) { p.daemonSet("other", true, "", 6*time.Minute) },
		near: func(p *fixture) { p.daemonSet("other", true, "", 4*time.Minute) },
		has:  "DaemonSet d/other selects this node and has no pod on it"},
	{id: "kube-proxy-twice", provoke: func(p *fixture) { p.proxies(kubeadmProxy, "kube-proxy") },
		near: func(p *fixture) { p.proxies(kubeadmProxy, "flanneld") },
		has:  "DaemonSet kube-system/kube-proxy selects this node, and the plan has a kube-proxy, too"},
	{id: "kube-proxy-twice", provoke: func(p *fixture) { p.proxies(kubeadmProxy, "kube-proxy") },
		near: func(p *fixture) {
			p.proxies(kube.DaemonSet{Namespace: "kube-system", Name: "kube-flannel"}, "kube-proxy")
		}, has: "DaemonSet kube-system/kube-proxy"},
	{id: "image-pull", provoke: func(p *fixture) { p.pod("ImagePullBackOff: Back-off pulling image", time.Minute) },
		near: func(p *fixture) { p.pod("CrashLoopBackOff: back-off", time.Hour) },
		has:  "pod d/web cannot pull its image: ImagePullBackOff"},
	{id: "node-port-local", provoke: func(p *fixture) {
		p.view.Services = append(p.view.Services, kube.Service{Namespace: "d", Name: "web", ClusterIP: "10.96.7.7",
			NodePorts: []int32{30080}})
	}, near: func(p *fixture) {
		p.view.Services = append(p.view.Services, kube.Service{Namespace: "d", Name: "web", ClusterIP: "10.96.7.7"})
	}, has: "d/web (port 30080)"},
	{id: "service-address-local", provoke: func(p *fixture) {
		p.view.Services = append(p.view.Services, kube.Service{Namespace: "d", Name: "web", ClusterIP: "10.96.7.7"})
	}, near: func(p *fixture) { p.view.Services = append(p.view.Services, kube.Service{Namespace: "d", Name: "web"}) },
		has: "d/web (10.96.7.7)"},
}

// TestSymptoms provokes every symptom and tries what is similar. A row of the table without both cases is a failure.
func TestSymptoms(t *testing.T) {
	var ids []string
	for _, c := range symptomCases {
		ids = append(ids, c.id)
		t.Run(c.id, func(t *testing.T) {
			t.Parallel()
			p := newFixture(t)
			c.provoke(p)
			list := p.diagnose().Symptoms
			i := slices.IndexFunc(list, func(s doctor.Symptom) bool { return s.ID == c.id })
			if i < 0 || !strings.Contains(list[i].Observed, c.has) || list[i].Why == "" || list[i].Remedy == "" ||
				list[i].Unasked {
				t.Fatalf("not found, want %q in what is seen: %+v", c.has, list)
			}
			fix := slices.Clone(list[i].Fix)
			for _, r := range list[i].Restart {
				fix = append(fix, "restart "+r)
			}
			if !slices.Equal(fix, c.fix) {
				t.Errorf("it is fixed by %q, want %q", fix, c.fix)
			}
			p = newFixture(t)
			c.near(p)
			list = p.diagnose().Symptoms
			if slices.ContainsFunc(list, func(s doctor.Symptom) bool { return s.ID == c.id }) {
				t.Errorf("found, where it is not so: %+v", list)
			}
			p = newFixture(t)
			p.list[0] = stepstest.Spec("preflight", "require", &preflight.Preflight{Waive: []string{c.id}})
			c.provoke(p)
			list = p.diagnose().Symptoms
			if i := slices.IndexFunc(list, func(s doctor.Symptom) bool { return s.ID == c.id }); !list[i].Waived {
				t.Errorf("waived, and it counts: %+v", list[i])
			}
		})
	}
	for _, f := range doctor.Symptoms() {
		judged := f.ID == doctor.PauseImageSymptom || f.ID == doctor.PortForwardSymptom
		if slices.Contains(ids, f.ID) == judged || f.Doc == "" || slices.ContainsFunc(preflight.Findables(),
			func(o steps.Findable) bool { return o.ID == f.ID }) {
			t.Errorf("%s: it has no case, no reason, or the id of a finding", f.ID)
		}
	}
}

// TestSymptomsElsewhere: other causes of the same symptoms.
func TestSymptomsElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		do  func(p *fixture)
		id  string
		has string
	}{
		"no Node": {func(p *fixture) { p.view.Node = nil }, "node-not-ready", "the cluster has no Node win-1"},
		"service gone": {func(p *fixture) {
			p.do(func(h host.Host) error {
				stepstest.Must(p.t, h.StopService(p.t.Context(), "kube-proxy"))
				return h.DeleteService(p.t.Context(), "kube-proxy")
			})
		}, "node-service-stopped", "service kube-proxy is not registered"},
		"kubelet gone": {func(p *fixture) {
			p.do(func(h host.Host) error {
				stepstest.Must(p.t, h.StopService(p.t.Context(), "kubelet"))
				return h.DeleteService(p.t.Context(), "kubelet")
			})
		}, "node-service-stopped", "service kubelet is not registered"},
		"another's name": {func(p *fixture) { p.file(`C:\x\kube-proxy.yaml`, "hostnameOverride: win-2\n") },
			"kube-proxy-name", `the Node "win-2" instead of win-1`},
		"resolvConf": {func(p *fixture) {
			p.file(`C:\x\kubelet.yaml`, "resolvConf: /etc/resolv.conf\nclusterDNS: ['10.96.0.10']\n")
		}, "dns", "/etc/resolv.conf, which Windows does not have"},
		"no name server": {func(p *fixture) { p.file(`C:\x\kubelet.yaml`, "resolvConf: \"\"\n") }, "dns",
			"clusterDNS is empty"},
		"no YAML of kube-proxy": {func(p *fixture) { p.file(`C:\x\kube-proxy.yaml`, "{{") }, "kube-proxy-name",
			`C:\x\kube-proxy.yaml is not YAML, so its program does not start`},
		"no YAML of the kubelet": {func(p *fixture) { p.file(`C:\x\kubelet.yaml`, "{{") }, "dns",
			`C:\x\kubelet.yaml is not YAML`},
		"another name server": {func(p *fixture) {
			p.file(`C:\x\kubelet.yaml`, "resolvConf: \"\"\nclusterDNS: ['10.96.0.53']\n")
		}, "dns", "pods ask 10.96.0.53 for names instead of 10.96.0.10, as the plan says"},
		"address gone": {func(p *fixture) { p.quirks.Networks[0].ManagementIP = "192.0.2.77" },
			"network-adapter", "no adapter of the machine has 192.0.2.77"},
		"half a subnet file": {func(p *fixture) { p.file(podSubnet, "FLANNEL_SUBNET=10.244.3.1/24\n") }, "subnet-file",
			"lacks FLANNEL_NETWORK, FLANNEL_MTU, FLANNEL_IPMASQ"},
		"another subnet": {func(p *fixture) {
			p.file(podSubnet, strings.Replace(subnetEnv, "10.244.3.1", "10.244.4.1", 1))
		}, "subnet-file", "says 10.244.4.1/24, and the Node's pod network is 10.244.3.0/24"},
		"files of other scripts": {func(p *fixture) {
			p.file(`C:\k\SourceVipRequest.json`, `{"ipam":{"ranges":[[{"subnet":"10.244.8.0/24"}]]}}`)
		}, "stale-subnet", `C:\k\SourceVipRequest.json is left from an earlier node`},
		"source address of another subnet": {func(p *fixture) {
			p.file(`C:\x\kube-proxy.yaml`, "hostnameOverride: win-1\nwinkernel: {sourceVip: 10.244.8.2}\n")
		}, "stale-subnet", "kube-proxy sends from 10.244.8.2, outside of the Node's pod network 10.244.3.0/24"},
		"comments in JSON": {func(p *fixture) {
			p.file(`C:\x\10-flannel.conflist`, strings.Replace(cniConfV2, `"10.244.0.0/16",`,
				"\"10.244.0.0/16\", # cluster\n", 1))
		}, "outbound-exceptions", "is not JSON"},
		"no CNI configuration": {func(p *fixture) { p.remove(`C:\x\10-flannel.conflist`) }, "outbound-exceptions",
			"is missing"},
		"with a proxy": {func(p *fixture) {
			p.pod("ErrImagePull: timeout", time.Minute)
			p.do(func(h host.Host) error { return h.SetMachineEnv(p.t.Context(), "HTTPS_PROXY", "http://p:3128") })
		}, "image-pull", "ErrImagePull: timeout"},
		"Linux, no subnet file": {func(p *fixture) { p.linux(); p.remove("/run/flannel/subnet.env") }, "subnet-file",
			"/run/flannel/subnet.env is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFixture(t)
			c.do(p)
			list := p.diagnose().Symptoms
			if !slices.ContainsFunc(list, func(s doctor.Symptom) bool {
				return s.ID == c.id && strings.Contains(s.Observed, c.has) && !s.Unasked
			}) {
				t.Errorf("want %s with %q: %+v", c.id, c.has, list)
			}
		})
	}
}

// TestSymptomsOfSoundMachines: a machine in good order has no symptom, and a machine that has not joined is not
// checked.
func TestSymptomsOfSoundMachines(t *testing.T) {
	for _, os := range []string{"windows", "linux"} {
		p := newFixture(t)
		if os == "linux" {
			p.linux()
		}
		reply := p.diagnose()
		for _, s := range reply.Symptoms {
			t.Errorf("%s: %+v", os, s)
		}
		if !reply.Joined || os == "windows" && reply.Pause != "registry.k8s.io/pause:3.10.2" {
			t.Errorf("%s: joined %v, pause image %q", os, reply.Joined, reply.Pause)
		}
	}
	h := stepstest.OpenHost(t, "windows")
	reply, err := examine(t, executor.NewExecutor(kinds.Catalog(), h, stepstest.Memory{}, func(event.Event) {}),
		doctor.DiagnoseRequest{Node: "win-1", Steps: newFixture(t).list})
	if err != nil || reply.Joined || len(reply.Symptoms) > 0 {
		t.Errorf("a machine that has not joined: %+v, %v", reply, err)
	}
}

// TestSymptomsOfDocker: with Docker the kubelet's flag names the pause image.
func TestSymptomsOfDocker(t *testing.T) {
	p := newFixture(t)
	p.list = slices.DeleteFunc(p.list, func(s steps.Spec) bool { return strings.HasPrefix(s.ID, "containerd") })
	p.register("kubelet", func(c *host.ServiceConfig) {
		c.Command = append(c.Command, "--pod-infra-container-image=mcr.microsoft.com/k8s/core/pause:1.2.0")
	})
	if reply := p.diagnose(); reply.Pause != "mcr.microsoft.com/k8s/core/pause:1.2.0" || !slices.Equal(reply.PauseFix,
		[]string{"kubelet"}) {
		t.Errorf("pause image %q, fixed by %q", reply.Pause, reply.PauseFix)
	}
}

// TestSymptomsUnasked: what could not be checked is reported as such.
func TestSymptomsUnasked(t *testing.T) {
	p := newFixture(t)
	p.view = doctor.ClusterView{NodeWhy: "no answer (node)", PodsWhy: "no answer (pods)",
		ServicesWhy: "no answer (services)"}
	p.quirks.Unasked = []string{"Adapters"}
	want := map[string]string{"node-not-ready": "no answer (node)", "node-pressure": "no answer (node)",
		"dns": "no answer (services)", "network-adapter": "it cannot be asked", "subnet-file": "no answer (node)",
		"stale-subnet": "no answer (node)", "pods-creating": "no answer (pods)", "image-pull": "no answer (pods)",
		"node-port-local": "no answer (services)", "service-address-local": "no answer (services)"}
	wantUnasked(t, p, want)
	p = newFixture(t)
	p.proxies(kube.DaemonSet{}, "kube-proxy")
	p.view = doctor.ClusterView{Node: p.view.Node, Clock: p.view.Clock, Services: p.view.Services,
		DaemonSetsWhy: "may not list DaemonSets"}
	wantUnasked(t, p, map[string]string{"daemon-set": "may not list", "kube-proxy-twice": "may not list"})
}

// wantUnasked: just these symptoms, with these reasons, could not be checked.
func wantUnasked(t *testing.T, p *fixture, want map[string]string) {
	t.Helper()
	for _, s := range p.diagnose().Symptoms {
		if !s.Unasked || want[s.ID] == "" || !strings.Contains(s.Observed, want[s.ID]) || s.Severity == steps.SeverityError {
			t.Errorf("%+v", s)
		}
		delete(want, s.ID)
	}
	if len(want) > 0 {
		t.Errorf("not reported: %v", want)
	}
}
