package kinds_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// kubeadmLinux returns the steps of kubeadm for a Linux machine, which is the Node win-1 of all scenarios.
func kubeadmLinux(ca string) []steps.Spec {
	kubelet := stepstest.Service("kubelet", "/usr/local/bin/kubelet",
		"--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf", "--kubeconfig=/etc/kubernetes/kubelet.conf",
		"--config=/var/lib/kubelet/config.yaml", "--hostname-override=win-1")
	kubelet.FlagsFile = "/var/lib/kubelet/kubeadm-flags.env"
	kubelet.Watch = []string{"/var/lib/kubelet/config.yaml", "/etc/kubernetes/pki/ca.crt"}
	kubelet.Chains = []string{"KUBE-"}
	kubelet.Makes = []string{"/var/log/pods", "/var/log/containers"}
	containerd := stepstest.Service("containerd", "/usr/local/bin/containerd")
	containerd.Interfaces, containerd.Chains = []string{"cni0"}, []string{"CNI-"}
	program := func(id, path, name string) steps.Spec {
		return stepstest.Spec("file", id, &kinds.File{Path: path, Content: name, Access: host.AccessProgram})
	}
	return []steps.Spec{
		program("kubelet_program", "/usr/local/bin/kubelet", "kubelet"),
		program("kubeadm_program", "/usr/local/bin/kubeadm", "kubeadm"),
		program("containerd_program", "/usr/local/bin/containerd", "containerd"),
		stepstest.Spec("service", "containerd", containerd),
		stepstest.Spec("kubeadm_join", "join", &kinds.KubeadmJoin{Program: "/usr/local/bin/kubeadm",
			ConfigVersion: "v1beta4", Server: "https://192.0.2.1:6443", CA: ca, Token: "abcdef.0123456789abcdef",
			CRISocket: "unix:///run/containerd/containerd.sock", Kubelet: kubelet.Command,
			Makes: kubelet.Makes, Chains: kubelet.Chains, Log: "/var/log/kubeadm.log"}),
		stepstest.Spec("service", "kubelet", kubelet),
		stepstest.Spec("credentials_ready", "certificate",
			&kinds.CredentialsReady{Path: "/etc/kubernetes/kubelet.conf", CA: ca}),
	}
}

// joinedLinux checks that the kubelet starts with the machine, has the flag of kubeadm's file, and that nothing that
// holds the token is left.
func joinedLinux(t *testing.T, h host.Host) {
	t.Helper()
	svc, err := h.Service(t.Context(), "kubelet")
	stepstest.Must(t, err)
	if svc.State != host.ServiceRunning || svc.Start != host.StartAuto || !slices.Contains(svc.Command,
		"--container-runtime-endpoint=unix:///run/containerd/containerd.sock") {
		t.Errorf("the kubelet is %s, start %s, with %q", svc.State, svc.Start, svc.Command)
	}
	for _, path := range []string{"/etc/kubernetes/nodejoin-kubeadm.yaml", "/etc/kubernetes/nodejoin-discovery.conf",
		"/etc/kubernetes/bootstrap-kubelet.conf"} {
		if _, err := h.Stat(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there after the join (%v)", path, err)
		}
	}
}

// noSystemd is a machine whose services systemd does not run.
type noSystemd struct{ host.Host }

func (n noSystemd) Facts(ctx context.Context) (host.Facts, error) {
	f, err := n.Host.Facts(ctx)
	f.Init = ""
	return f, err
}

// TestKubeadmWithoutSystemd: kubeadm would wait in vain for a kubelet that it cannot start, so the join is refused
// before anything is changed.
func TestKubeadmWithoutSystemd(t *testing.T) {
	h := noSystemd{stepstest.OpenHost(t, "linux")}
	list := kubeadmLinux(stepstest.TestCA(t))
	r := stepstest.Apply(t, h, nil, list[4:5])
	if r.Err == nil || r.Err.Summary != "kubeadm needs systemd" || r.Mutations != 0 {
		t.Fatalf("%d mutating calls, %v", r.Mutations, r.Err)
	}
}
