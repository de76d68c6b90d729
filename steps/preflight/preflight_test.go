package preflight_test

import (
	"slices"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/preflight"
	"nodejoin/steps/stepstest"
)

// TestFindables provokes every finding, and also comes close without provoking it. A row
// of the table without both cases fails.
func TestFindables(t *testing.T) {
	var ids []string
	for _, c := range findableCases {
		ids = append(ids, c.id)
		t.Run(c.id, func(t *testing.T) {
			t.Parallel()
			s := stepstest.NewSurvey(t)
			c.provoke(s)
			list, refused := s.Findings()
			i := slices.IndexFunc(list, func(f steps.Finding) bool { return f.ID == c.id })
			if i < 0 || !strings.Contains(list[i].Observed, c.has) || list[i].Why == "" || list[i].Remedy == "" ||
				list[i].Unasked {
				t.Fatalf("not found, want %q in an observation: %+v", c.has, list)
			}
			has := refused != nil && strings.Contains(refused.Detail, c.id+": ")
			if has != (list[i].Severity == steps.SeverityError) {
				t.Errorf("severity %s, but the check returns %v", list[i].Severity, refused)
			}
			s = stepstest.NewSurvey(t)
			c.near(s)
			list, _ = s.Findings()
			if slices.ContainsFunc(list, func(f steps.Finding) bool { return f.ID == c.id && !f.Unasked }) {
				t.Errorf("found where it must not be: %+v", list)
			}
			s = stepstest.NewSurvey(t)
			c.provoke(s)
			s.Args.Waive = []string{c.id}
			list, refused = s.Findings()
			if refused != nil && strings.Contains(refused.Detail, c.id+": ") ||
				!list[slices.IndexFunc(list, func(f steps.Finding) bool { return f.ID == c.id })].Waived {
				t.Errorf("waived, but found: %+v, %v", list, refused)
			}
		})
	}
	slices.Sort(ids)
	var want []string
	for _, f := range preflight.Findables() {
		want = append(want, f.ID)
		if f.Doc == "" || strings.HasSuffix(f.Doc, ".") || f.Severity == "" {
			t.Errorf("%s has no severity or no reason: %+v", f.ID, f)
		}
	}
	slices.Sort(want)
	if !slices.Equal(ids, want) {
		t.Errorf("cases for\n%q, want one for each of\n%q", ids, want)
	}
}

// TestPreflightInOrder: a healthy machine has only notes.
func TestPreflightInOrder(t *testing.T) {
	list, refused := stepstest.NewSurvey(t).Findings()
	if refused != nil || slices.ContainsFunc(list, func(f steps.Finding) bool {
		return f.Severity != steps.SeverityNote
	}) {
		t.Errorf("%+v, %v", list, refused)
	}
}

// TestPreflightRevisions: a bug that one update brought and another fixed is found by its range.
func TestPreflightRevisions(t *testing.T) {
	for revision, broken := range map[uint64]bool{2581: false, 2582: true, 2600: true, 2654: true, 2655: false} {
		s := stepstest.NewSurvey(t)
		s.Args.BadRevisions = map[string]string{"10.0.20348.2582-2654": "it breaks HNS", "10.0.26100.0-6898": "no overlay"}
		s.Number(stepstest.VersionKey, "UBR", revision)
		list, _ := s.Findings()
		if slices.ContainsFunc(list, func(f steps.Finding) bool {
			return f.ID == "update-broken" && strings.Contains(f.Observed, "it breaks HNS")
		}) != broken {
			t.Errorf("revision %d: %+v", revision, list)
		}
	}
}

// TestPreflightFamilies: IPv6 networks must not overlap with the machine's, either.
func TestPreflightFamilies(t *testing.T) {
	for address, told := range map[string]string{
		"fd00:10:244:7::5/64":   "fd00:10:244:7::/64 of Storage overlaps that of the pods, fd00:10:244::/56",
		"fd00:10:96::5/112":     "fd00:10:96::/112 of Storage overlaps that of the services, fd00:10:96::/112",
		"fd00:10:244:100::5/64": "",
	} {
		s := stepstest.NewSurvey(t)
		s.Args.PodCIDR, s.Args.ServiceCIDR = "10.244.0.0/16,fd00:10:244::/56", "10.96.0.0/12,fd00:10:96::/112"
		s.Adapters(ethernet("Ethernet", "192.0.2.10/24"), host.Adapter{Name: "Storage", Addresses: []string{address}})
		list, _ := s.Findings()
		at := slices.IndexFunc(list, func(f steps.Finding) bool { return f.ID == "network-overlap" })
		if (at >= 0) != (told != "") || at >= 0 && !strings.Contains(list[at].Observed, told) {
			t.Errorf("%s: have %+v, want %q", address, list, told)
		}
	}
}

// TestPreflightAddress6: the machine must have the IPv6 address in the plan.
func TestPreflightAddress6(t *testing.T) {
	for _, machine := range []string{"", "fd00::11", "fd00::10"} {
		s := stepstest.NewSurvey(t)
		s.Config.IP6, s.Args.Address6 = machine, "fd00::10"
		list, _ := s.Findings()
		at := slices.IndexFunc(list, func(f steps.Finding) bool { return f.ID == "address-elsewhere" })
		if (at >= 0) != (machine != "fd00::10") || at >= 0 &&
			(!strings.Contains(list[at].Observed, "the plan says fd00::10") || !strings.Contains(list[at].Remedy,
				"management_ip6")) {
			t.Errorf("the machine has %q: %+v", machine, list)
		}
	}
}

// TestPreflightInterface: the adapter in the plan must be there, with an address.
func TestPreflightInterface(t *testing.T) {
	for name, told := range map[string]string{
		"Management":         "",
		"vEthernet (Gone)":   "",
		"Gone":               "",
		"Storage":            "the adapter \"Storage\" has no IPv4 address",
		"Ethernet":           `no adapter "Ethernet"; it has "Management", "Storage", "vEthernet (Gone)"`,
		"vEthernet (Gone) 2": "the machine has no adapter \"vEthernet (Gone) 2\"",
	} {
		s := stepstest.NewSurvey(t)
		s.Args.Interface = name
		s.Adapters(ethernet("Management", "192.0.2.10/24"), host.Adapter{Name: "Storage"},
			host.Adapter{Name: "vEthernet (Gone)", Addresses: []string{"198.51.100.7/24"}})
		list, _ := s.Findings()
		at := slices.IndexFunc(list, func(f steps.Finding) bool { return f.ID == "no-address" })
		if (at >= 0) != (told != "") || at >= 0 && !strings.Contains(list[at].Observed, told) {
			t.Errorf("%s: have %+v, want %q", name, list, told)
		}
	}
}

// TestPreflightPlaceholder: if the plan wants the placeholder network, no adapter may have an address in it.
func TestPreflightPlaceholder(t *testing.T) {
	for placeholder, want := range map[string]string{"": "",
		"192.168.255.0/30": "192.168.255.0/24 of Storage overlaps that of the placeholder on the adapter, " +
			"192.168.255.0/30"} {
		s := stepstest.NewSurvey(t)
		s.Args.Placeholder = placeholder
		s.Adapters(ethernet("Ethernet", "192.0.2.10/24"),
			host.Adapter{Name: "Storage", Addresses: []string{"192.168.255.9/24"}})
		list, _ := s.Findings()
		at := slices.IndexFunc(list, func(f steps.Finding) bool { return f.ID == "network-overlap" })
		if (at >= 0) != (want != "") || at >= 0 && !strings.Contains(list[at].Observed, want) {
			t.Errorf("%q: have %+v, want %q", placeholder, list, want)
		}
	}
}

// TestPreflightNamed: if the plan names the machine, no remedy asks for another name.
func TestPreflightNamed(t *testing.T) {
	for _, named := range []bool{false, true} {
		s := stepstest.NewSurvey(t)
		s.Config.Hostname, s.Args.Named = "old_1", named
		s.Text(stepstest.Names+"ComputerName", "ComputerName", "win-1")
		list, _ := s.Findings()
		told := 0
		for _, f := range list {
			if slices.Contains([]string{"host-name", "host-name-differs", "pending-rename"}, f.ID) {
				told++
				if f.ID != "pending-rename" && !strings.Contains(f.Remedy, "host { hostname = ") {
					t.Errorf("%s: %s", f.ID, f.Remedy)
				}
			}
		}
		if want := map[bool]int{false: 3}[named]; told != want {
			t.Errorf("named %v: %d findings, want %d", named, told, want)
		}
	}
}

// TestPreflightHostName: names follow RFC 1123, which ignores case.
func TestPreflightHostName(t *testing.T) {
	for name, has := range map[string]string{
		"WIN-1": "", "7": "", "win-1.10.example": "", strings.Repeat("a", 63): "",
		strings.Repeat("a", 64): "64 characters", "wïn": "characters besides", "-win": "begins or ends",
		"win-.example": "begins or ends", "win..example": "is empty",
	} {
		s := stepstest.NewSurvey(t)
		s.Quirks.HostName = name
		list, refused := s.Findings()
		at := slices.IndexFunc(list, func(f steps.Finding) bool { return f.ID == "host-name" })
		if (at >= 0) != (has != "") || at >= 0 && (!strings.Contains(list[at].Observed, has) || refused == nil) {
			t.Errorf("%s: %+v, %v; want %q", name, list, refused, has)
		}
	}
}

// TestPreflightUnasked: "could not ask" never counts as an answer.
func TestPreflightUnasked(t *testing.T) {
	for question, ids := range map[string][]string{
		"Adapters": {"network-overlap", "default-routes", "address-leased"}, "Listeners": {"port-taken"},
		"PortExcluded": {"port-excluded"}, "HNSNetworks": {"hns-network-foreign"}, "ProbeTCP": {"proxy-unreachable"},
		"RegistryNames":                               {"pending-reboot"},
		"RegistryValue " + stepstest.VersionKey:       {"windows-edition", "update-broken"},
		"RegistryValue " + stepstest.Services + "hns": {"containers-feature", "containers-services"},
	} {
		s := stepstest.NewSurvey(t)
		s.Quirks.Unasked = []string{question}
		s.Env("HTTPS_PROXY", "http://proxy.example:3128")
		list, refused := s.Findings()
		for _, id := range ids {
			i := slices.IndexFunc(list, func(f steps.Finding) bool { return f.ID == id && f.Unasked })
			if i < 0 {
				t.Errorf("%s: no finding %s: %+v", question, id, list)
			} else if list[i].Severity == steps.SeverityError && (refused == nil || !strings.Contains(refused.Detail, id)) {
				t.Errorf("%s: %s could not be asked, but the check returns %v", question, id, refused)
			}
		}
	}
}

// TestPreflightProxyExceptions: they must cover the API server and the whole of the cluster's networks.
func TestPreflightProxyExceptions(t *testing.T) {
	for exceptions, want := range map[string]string{
		"*":                                        "",
		"api.example,10.244.0.0/16,10.96.0.0/12":   "",
		"api.example,10.244.0.0/16,10.96.0.0/16":   "10.96.0.0/12",
		"api.example, 10.240.0.0/12 ,10.96.0.0/12": "",
		"10.0.0.0/8":                               "api.example",
		".other.example,192.0.2.0/24":              "api.example, 10.244.0.0/16, 10.96.0.0/12",
	} {
		s := stepstest.NewSurvey(t)
		s.Env("HTTPS_PROXY", "http://proxy.example:3128")
		s.Env("NO_PROXY", exceptions)
		list, _ := s.Findings()
		have := ""
		for _, f := range list {
			if f.ID == "proxy-exceptions" {
				_, have, _ = strings.Cut(f.Observed, "NO_PROXY lacks ")
			}
		}
		if have != want {
			t.Errorf("%s: have %q, want %q", exceptions, have, want)
		}
	}
}

// TestPreflightProxies: each proxy of the plan and of the machine is asked once, and only
// its address is reported.
func TestPreflightProxies(t *testing.T) {
	for _, c := range []struct {
		name, tcp, http, https string
		plan                   []string
		want                   []string // the observations
		unasked                bool
	}{
		{name: "answers", http: "http://proxy.example:3128"},
		{name: "asked once", tcp: "refused", http: "http://proxy.example", https: "proxy.example:80",
			want: []string{"the proxy proxy.example:80 of the machine's environment does not answer the machine: no " +
				"answer: refused"}},
		{name: "of version 6", tcp: "refused", http: "http://[2001:db8::1]",
			want: []string{"the proxy [2001:db8::1]:80 of the machine's environment does not answer the machine: no " +
				"answer: refused"}},
		{name: "not found", tcp: "name", https: "https://proxy.example",
			want: []string{"the machine cannot resolve the proxy proxy.example:443 of the machine's environment"}},
		{name: "of the plan", tcp: "refused", http: "http://old.example", plan: []string{"new.example:3128"},
			want: []string{"the proxy new.example:3128 of the plan does not answer the machine: no answer: refused"}},
		{name: "no address", http: "http://user:word@:3128",
			want:    []string{"could not be checked: HTTP_PROXY of the machine's environment is not the address of a proxy"},
			unasked: true},
	} {
		s := stepstest.NewSurvey(t)
		s.Quirks.TCP, s.Args.Proxies, s.Args.Proxy = c.tcp, c.plan, c.plan != nil
		for name, v := range map[string]string{"HTTP_PROXY": c.http, "HTTPS_PROXY": c.https, "NO_PROXY": "*"} {
			if v != "" {
				s.Env(name, v)
			}
		}
		list, _ := s.Findings()
		var have []string
		for _, f := range list {
			if f.ID == "proxy-unreachable" {
				have = append(have, f.Observed)
				if f.Unasked != c.unasked {
					t.Errorf("%s: unasked is %v", c.name, f.Unasked)
				}
			}
		}
		if !slices.Equal(have, c.want) {
			t.Errorf("%s: %q, want %q", c.name, have, c.want)
		}
	}
}

// TestDefenderOfRuntime: Defender must exclude the runtime that the node has.
func TestDefenderOfRuntime(t *testing.T) {
	for _, c := range []struct{ excluded, seen string }{
		{`C:\Program Files\containerd\containerd.exe`, "Defender runs and scans docker"},
		{`C:\Program Files\docker\dockerd.exe`, ""},
	} {
		s := stepstest.NewSurvey(t)
		s.Args.Services = []string{"docker", "kubelet"}
		s.Number(stepstest.Services+"WinDefend", "Start", 2)
		s.Text(`HKLM\SOFTWARE\Policies\Microsoft\Windows Defender\Exclusions\Processes`, c.excluded, "0")
		list, _ := s.Findings()
		seen := ""
		for _, f := range list {
			if f.ID == "defender-exclusions" {
				seen = f.Observed
			}
		}
		if seen != c.seen {
			t.Errorf("%s is excluded: found %q, want %q", c.excluded, seen, c.seen)
		}
	}
}

func TestPreflightArguments(t *testing.T) {
	for _, args := range []preflight.Preflight{{MinBuild: "ten"}, {MinFree: "much"}, {Ports: []string{"10250"}},
		{BadRevisions: map[string]string{"10.0.20348.9-2": "x"}},
		{Ports: []string{"tcp/0"}}, {CA: "x"}, {Proxies: []string{"http://proxy.example:3128"}}} {
		s := stepstest.NewSurvey(t)
		s.Args = args
		if _, refused := s.Findings(); refused == nil || refused.Code != steps.CodeInvalid {
			t.Errorf("%+v: %v", args, refused)
		}
	}
}
