package compat

import (
	"slices"
	"strings"
	"testing"
)

func TestCheckFlag(t *testing.T) {
	for _, c := range []struct {
		program, flag, version string
		want                   Status
		instead                string // part of Instead; "" for none
	}{
		{KubeletProgram, "--windows-service", "1.14.0", OK, ""},
		{KubeletProgram, "--windows-service", "1.36.3", OK, ""},
		{KubeletProgram, "--service", "1.27.16", Unknown, "--windows-service"},
		{KubeProxyProgram, "--service", "v1.36.0", Unknown, "--windows-service"},
		{KubeletProgram, "--kubelet-reserve", "1.27.16", Unknown, "--kube-reserved"},
		{KubeletProgram, "--system-reserve=cpu=1", "1.27.16", Unknown, "--system-reserved"},
		{KubeletProgram, "--enforce-node-allocable", "1.27.16", Unknown, "--enforce-node-allocatable"},
		{KubeletProgram, "--cluster-dnss", "1.27.16", Unknown, "--cluster-dns"},
		{KubeletProgram, "--source-vip", "1.27.16", Unknown, ""},
		{KubeletProgram, "--completely-different-thing", "1.27.16", Unknown, ""},

		{KubeletProgram, "--network-plugin=cni", "1.23.17", Deprecated, "bin_dir"},
		{KubeletProgram, "--network-plugin=cni", "1.24.0", Removed, "bin_dir"},
		{KubeletProgram, "network_plugin", "1.24", Removed, "bin_dir"},
		{KubeletProgram, "--cni-bin-dir", "1.19.16", OK, ""},
		{KubeletProgram, "--cni-conf-dir", "1.31.0", Removed, "conf_dir"},
		{KubeletProgram, "--image-pull-progress-deadline", "1.24.0", Removed, "image_pull_progress_timeout"},
		{KubeletProgram, "--container-runtime=remote", "1.23.0", OK, ""},
		{KubeletProgram, "--container-runtime=remote", "1.26.15", Deprecated, "--container-runtime-endpoint"},
		{KubeletProgram, "--container-runtime=remote", "1.27.0", Removed, "--container-runtime-endpoint"},
		{KubeletProgram, "--container-runtime-endpoint", "1.26.0", OK, ""},
		{KubeletProgram, "--container-runtime-endpoint", "1.27.0", Deprecated, "containerRuntimeEndpoint"},
		{KubeletProgram, "--pod-infra-container-image", "1.34.4", Deprecated, "containerd"},
		{KubeletProgram, "--pod-infra-container-image", "1.35.0", Removed, "containerd"},
		{KubeletProgram, "--cloud-config", "1.33.0", Deprecated, "external"},
		{KubeletProgram, "--cloud-config", "1.34.0", Removed, "external"},
		{KubeletProgram, "--allow-privileged", "1.14.10", Deprecated, ""},
		{KubeletProgram, "--allow-privileged", "1.15.0", Removed, ""},
		{KubeletProgram, "--log-dir", "1.22.0", OK, ""},
		{KubeletProgram, "--log-dir", "1.25.0", Deprecated, "kube-log-runner"},
		{KubeletProgram, "--logtostderr=false", "1.26.0", Removed, "kube-log-runner"},
		{KubeletProgram, "--v=4", "1.36.3", OK, ""},
		{KubeletProgram, "--cluster-dns", "1.36.3", Deprecated, "clusterDNS"},
		{KubeletProgram, "--client-ca-file", "1.36.3", Deprecated, "authentication.x509.clientCAFile"},
		{KubeletProgram, "--pod-manifest-path", "1.36.3", Deprecated, "staticPodPath"},
		{KubeletProgram, "--register-with-taints", "1.22.0", OK, ""},
		{KubeletProgram, "--node-ip", "1.36.3", OK, ""},
		{KubeletProgram, "--windows-priorityclass", "1.14.0", NotYet, ""},

		{KubeProxyProgram, "--healthz-port", "1.36.3", Deprecated, "--healthz-bind-address"},
		{KubeProxyProgram, "--root-hnsendpoint-name", "1.23.0", NotYet, "cbr0"},
		{KubeProxyProgram, "--root-hnsendpoint-name", "1.24.0", OK, ""},
		{KubeProxyProgram, "--enable-dsr", "1.14.0", OK, ""},
		{KubeProxyProgram, "--log-file", "1.26.0", Removed, "kube-log-runner"},
		{"kubeadm", "--config", "1.36.3", Unknown, ""},
		{KubeletProgram, "--config", "latest", NoVersion, ""},
	} {
		have := CheckFlag(c.program, c.flag, c.version)
		if have.Status != c.want || !strings.Contains(have.Instead, c.instead) || c.want != OK && have.Why == "" {
			t.Errorf("%s %s %s: have %+v, want %v with %q", c.program, c.flag, c.version, have, c.want, c.instead)
		}
		if have.Status != NoVersion && c.program != "kubeadm" && have.Source == "" {
			t.Errorf("%s %s: no source", c.program, c.flag)
		}
	}
	if have := CheckFlag(KubeletProgram, "--config", "1.40.0"); have.Status != OK ||
		!strings.Contains(have.Assumed, "treats it as 1.37") {
		t.Errorf("newer than the tables: %+v", have)
	}
	if have := CheckFlag(KubeletProgram, "--config", "1.9.0"); have.Status != OK ||
		!strings.Contains(have.Assumed, "older") {
		t.Errorf("older than the tables: %+v", have)
	}
}

// The counts come from kubelet.exe --help and kube-proxy.exe --help of 1.36.3,
// which hide --healthz-port and --metrics-port.
func TestFlagsOfNewest(t *testing.T) {
	for program, want := range map[string]int{KubeletProgram: 132, KubeProxyProgram: 61 + 2} {
		if have := flagsOf(program, "1.36.3"); len(have) != want {
			t.Errorf("%s: %d flags, want %d", program, len(have), want)
		}
	}
	if flagsOf("kubectl", "1.36.3") != nil || flagsOf(KubeletProgram, "x") != nil {
		t.Error("flags of an unknown program or version")
	}
}

// Every row of the data can be read, and every name that the advice uses is real.
func TestFlagData(t *testing.T) {
	for program, text := range map[string]string{KubeletProgram: kubeletFlagsText, KubeProxyProgram: kubeProxyFlagsText} {
		for _, f := range dataRows(text) {
			if len(f) < 4 || len(f) > 5 {
				t.Errorf("%s: row %q has %d columns", program, f, len(f))
				continue
			}
			for _, s := range f[1:4] {
				if _, err := parseLine(s); err != nil {
					t.Errorf("%s: row %q: %v", program, f, err)
				}
			}
		}
		table := flagTables()[program]
		for name := range flagAdvice[program] {
			if len(table.rows[name]) == 0 {
				// klog flags that no version of kube-proxy had are shared advice
				t.Errorf("%s: advice for --%s, which no version has", program, name)
			}
		}
		for wrong, right := range flagMistakes[program] {
			if len(table.rows[right]) == 0 {
				t.Errorf("%s: --%s is corrected to --%s, which no version has", program, wrong, right)
			}
			if len(table.rows[wrong]) > 0 {
				t.Errorf("%s: --%s is listed as a mistake but exists", program, wrong)
			}
		}
		for flag, field := range flagFields[program] {
			if len(table.rows[flag]) == 0 || len(fieldTables()[program].rows[field]) == 0 {
				t.Errorf("%s: pair --%s and %s: one of them does not exist", program, flag, field)
			}
		}
	}
}

// A kubelet flag that is deprecated in favour of the configuration file needs a field,
// so that the reader knows what to do.
func TestDeprecatedFlagsHaveFields(t *testing.T) {
	var without []string
	for _, flag := range flagsOf(KubeletProgram, "1.36.3") {
		v := CheckFlag(KubeletProgram, flag, "1.36.3")
		if strings.HasSuffix(v.Why, ".") {
			t.Errorf("--%s: the reason ends in a full stop: %q", flag, v.Why)
		}
		if v.Status == Deprecated && v.Instead == "" {
			without = append(without, flag)
		}
	}
	if len(without) > 0 {
		t.Errorf("deprecated without advice: %v", without)
	}
}

func TestCheckField(t *testing.T) {
	for _, c := range []struct {
		program, path, version string
		want                   Status
		instead                string
	}{
		{KubeletProgram, "containerRuntimeEndpoint", "1.26.15", NotYet, "--container-runtime-endpoint"},
		{KubeletProgram, "containerRuntimeEndpoint", "1.27.0", OK, ""},
		{KubeletProgram, "registerWithTaints", "1.22.0", NotYet, "--register-with-taints"},
		{KubeletProgram, "authentication.x509.clientCAFile", "1.14.0", OK, ""},
		{KubeletProgram, "clusterDns", "1.36.3", Unknown, "clusterDNS"},
		{KubeletProgram, "cluster-dns", "1.36.3", Unknown, "clusterDNS"},
		{KubeletProgram, "evictionHard.memory.available", "1.36.3", OK, ""},
		{KubeletProgram, "featureGates.WinDSR", "1.36.3", OK, ""},
		{KubeletProgram, "clusterDomain.x", "1.36.3", Unknown, ""},
		{KubeletProgram, "apiVersion", "1.36.3", OK, ""},
		{KubeletProgram, "singleProcessOOMKill", "1.36.3", Refused, ""},
		{KubeletProgram, "userNamespaces.idsPerPod", "1.36.3", Refused, ""},
		{KubeletProgram, "defaultPodSysctls", "1.36.3", NotYet, ""},
		{KubeletProgram, "defaultPodSysctls", "1.37.2", Refused, ""},
		{KubeletProgram, "logging.options.text.splitStream", "1.37.2", OK, ""},
		{KubeletProgram, "userNamespaces", "1.30.0", NotYet, ""},
		{KubeletProgram, "logging.sanitization", "1.24.0", Removed, ""},
		{KubeProxyProgram, "winkernel.sourceVip", "1.14.0", OK, ""},
		{KubeProxyProgram, "winkernel.sourceVIP", "1.36.3", Unknown, "winkernel.sourceVip"},
		{KubeProxyProgram, "winkernel.enableDSR", "1.31.0", OK, ""},
		{KubeProxyProgram, "windowsRunAsService", "1.30.0", NotYet, "--windows-service"},
		{KubeProxyProgram, "windowsRunAsService", "1.31.0", OK, ""},
		{KubeProxyProgram, "udpIdleTimeout", "1.26.0", Removed, ""},
		{KubeProxyProgram, "clusterCIDR", "1.32.0", OK, ""},
		{"x", "clusterCIDR", "1.32.0", Unknown, ""},
		{KubeProxyProgram, "mode", "", NoVersion, ""},
	} {
		have := CheckField(c.program, c.path, c.version)
		if have.Status != c.want || !strings.Contains(have.Instead, c.instead) {
			t.Errorf("%s %s %s: have %+v, want %v with %q", c.program, c.path, c.version, have, c.want, c.instead)
		}
	}
	for program := range fieldTables() {
		for _, path := range Fields(program, "1.36.3") {
			if v := CheckField(program, path, "1.36.3"); !v.Accepted() && v.Status != Refused {
				t.Errorf("%s %s: %+v", program, path, v)
			}
		}
	}
}

func TestCheckGate(t *testing.T) {
	for _, c := range []struct {
		gate    string
		value   bool
		version string
		want    Status
		stage   Stage
		on      bool
	}{
		{"WinOverlay", true, "1.19.16", OK, Alpha, false},
		{"WinOverlay", true, "1.20.0", OK, Beta, true},
		{"WinOverlay", true, "1.34.0", Deprecated, GA, true},
		{"WinOverlay", false, "1.34.0", Refused, GA, true},
		{"WinDSR", true, "1.32.13", OK, Alpha, false},
		{"WinDSR", true, "1.33.0", OK, Beta, true},
		{"NodeLogQuery", true, "1.26.0", NotYet, "", false},
		{"NodeLogQuery", true, "1.30.0", OK, Beta, false},
		{"NodeLogQuery", true, "1.36.3", Deprecated, GA, true},
		{"IPv6DualStack", true, "1.24.0", Deprecated, GA, true},
		{"IPv6DualStack", true, "1.25.0", Removed, "", false},
		{"DynamicKubeletConfig", true, "1.23.0", Deprecated, Retiring, false},
		{"DynamicKubeletConfig", true, "1.26.0", Removed, "", false},
		{"winoverlay", true, "1.30.0", Unknown, "", false},
		{"WinOverlays", true, "1.30.0", Unknown, "", false},
		{"APIServerTracing", true, "1.36.3", Deprecated, GA, true},
		{"APIServerTracing", true, "1.37.2", Removed, "", false},
		{"PodAndContainerStatsFromCRI", true, "1.37.2", OK, Beta, false},
		{"AllAlpha", false, "1.36.3", OK, Alpha, false},
		{"AllBeta", false, "1.16.0", NotYet, "", false},
		{"WinDSR", true, "x", NoVersion, "", false},
	} {
		have := CheckGate(c.gate, c.value, c.version)
		if have.Status != c.want || have.Stage != c.stage || have.Default != c.on {
			t.Errorf("%s=%t %s: have %+v, want %v %s", c.gate, c.value, c.version, have, c.want, c.stage)
		}
		if c.want == Unknown && have.Instead != "WinOverlay" {
			t.Errorf("%s: did you mean %q", c.gate, have.Instead)
		}
	}
}

// 150 is what kubelet.exe and kube-proxy.exe of 1.36.3 list in --help, which
// leaves out gates that are GA or deprecated.
func TestGatesOfNewest(t *testing.T) {
	listed := 0
	for _, name := range gatesOf("1.36.3") {
		if g := CheckGate(name, true, "1.36.3"); g.Stage == Alpha || g.Stage == Beta {
			listed++
		}
	}
	if listed != 150 {
		t.Errorf("%d alpha and beta gates, want 150", listed)
	}
}

func TestGateData(t *testing.T) {
	for _, f := range dataRows(gatesText) {
		if len(f) != 3 {
			t.Errorf("row %q has %d columns", f, len(f))
			continue
		}
		if _, err := parseLine(f[2]); err != nil {
			t.Errorf("row %q: %v", f, err)
		}
		last := line{}
		for _, s := range gates().rows[f[0]].specs {
			if !last.less(s.since) || !slices.Contains([]Stage{Alpha, Beta, GA, Retiring}, s.stage) {
				t.Errorf("%s: %+v after %v", f[0], s, last)
			}
			last = s.since
		}
	}
}
