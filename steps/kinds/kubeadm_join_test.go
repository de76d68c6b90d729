package kinds_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// kubeadm returns the steps of a join by kubeadm on a sandbox machine without a cluster: programs, the container
// runtime, the join, and the service of the kubelet.
func kubeadm(ca string) []steps.Spec {
	kubelet := stepstest.Service("kubelet", `C:\k\kubelet.exe`,
		`--bootstrap-kubeconfig=C:\etc\kubernetes\bootstrap-kubelet.conf`,
		`--kubeconfig=C:\etc\kubernetes\kubelet.conf`, `--config=C:\var\lib\kubelet\config.yaml`,
		"--hostname-override=win-1")
	kubelet.FlagsFile = `C:\var\lib\kubelet\kubeadm-flags.env`
	kubelet.Watch = []string{`C:\var\lib\kubelet\config.yaml`, `C:\etc\kubernetes\pki\ca.crt`}
	kubelet.Makes = kubeletFolders
	return []steps.Spec{
		stepstest.Spec("file", "kubelet_exe", &kinds.File{Path: `C:\k\kubelet.exe`, Content: "kubelet"}),
		stepstest.Spec("file", "kubeadm_exe", &kinds.File{Path: `C:\k\kubeadm.exe`, Content: "kubeadm"}),
		stepstest.Spec("file", "containerd_exe", &kinds.File{Path: `C:\c\containerd.exe`, Content: "containerd"}),
		stepstest.Spec("service", "containerd", stepstest.Service("containerd", `C:\c\containerd.exe`)),
		stepstest.Spec("kubeadm_join", "join", kubeadmArgs(ca, kubelet.Command)),
		stepstest.Spec("service", "kubelet", kubelet),
		stepstest.Spec("credentials_ready", "certificate",
			&kinds.CredentialsReady{Path: `C:\etc\kubernetes\kubelet.conf`, CA: ca}),
	}
}

// kubeletFolders are the folders that a start of the kubelet makes.
var kubeletFolders = []string{`C:\var\log\pods`, `C:\var\log\containers`}

// kubeadmAt is kubeadm with the version of Kubernetes.
func kubeadmAt(ca, version string) []steps.Spec {
	return kubeadmWith(ca, func(k *kinds.KubeadmJoin) { k.Version = version })
}

// kubeadmWith is kubeadm with other arguments of its join.
func kubeadmWith(ca string, change func(*kinds.KubeadmJoin)) []steps.Spec {
	list := kubeadm(ca)
	i := slices.IndexFunc(list, func(s steps.Spec) bool { return s.ID == "join" })
	var args kinds.KubeadmJoin
	if err := json.Unmarshal(list[i].Args.JSON(), &args); err != nil {
		panic(err) // the test's own
	}
	change(&args)
	list[i] = stepstest.Spec("kubeadm_join", "join", &args)
	return list
}

// upgradedByKubeadm checks that the kubelet's settings are the cluster's again and that kubeadm has kept a copy of the
// earlier ones.
func upgradedByKubeadm(t *testing.T, h host.Host) {
	t.Helper()
	joined(t, h)
	holds(`C:\var\lib\kubelet\config.yaml`, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+
		"rotateCertificates: true\nclusterDNS: [10.96.0.10]\n")(t, h)
	if _, err := h.Stat(t.Context(), `C:\etc\kubernetes\tmp`); err != nil {
		t.Errorf("kubeadm has kept no copy: %v", err)
	}
}

func kubeadmArgs(ca string, kubelet []string) *kinds.KubeadmJoin {
	return &kinds.KubeadmJoin{Program: `C:\k\kubeadm.exe`, ConfigVersion: "v1beta4", Server: "https://192.0.2.1:6443",
		CA: ca, Token: "abcdef.0123456789abcdef",
		CRISocket: "npipe:////./pipe/containerd-containerd", Kubelet: kubelet,
		Makes: kubeletFolders, Log: `C:\var\log\kubelet\kubeadm.log`}
}

// joined checks that the kubelet runs with its own flags and those of kubeadm's file that it lacks, and that nothing
// that holds the token is left.
func joined(t *testing.T, h host.Host) {
	t.Helper()
	svc, err := h.Service(t.Context(), "kubelet")
	stepstest.Must(t, err)
	if svc.State != host.ServiceRunning || svc.Start != host.StartAuto {
		t.Errorf("kubelet is %s, start %s", svc.State, svc.Start)
	}
	if !slices.Contains(svc.Command, "--container-runtime-endpoint=npipe:////./pipe/containerd-containerd") {
		t.Errorf("the command lacks the flag of kubeadm-flags.env: %q", svc.Command)
	}
	for _, flag := range []string{"--config=", "--hostname-override="} {
		if n := len(slices.DeleteFunc(slices.Clone(svc.Command), func(a string) bool {
			return !strings.HasPrefix(a, flag)
		})); n != 1 {
			t.Errorf("%d times %s in %q", n, flag, svc.Command)
		}
	}
	for _, path := range []string{`C:\etc\kubernetes\nodejoin-kubeadm.yaml`,
		`C:\etc\kubernetes\nodejoin-discovery.conf`, `C:\etc\kubernetes\bootstrap-kubelet.conf`} {
		if _, err := h.Stat(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there after the join (%v)", path, err)
		}
	}
	for _, path := range []string{`C:\var\lib\kubelet\config.yaml`, `C:\var\lib\kubelet\kubeadm-flags.env`} {
		if fi, err := h.Stat(t.Context(), path); err != nil || fi.Access != host.AccessPrivate {
			t.Errorf("%s is open to others: %+v, %v", path, fi, err)
		}
	}
}

// TestKubeadmPreflight: files that nodejoin did not make are not touched. kubeadm's failed checks are reported by
// name, except those that the plan ignores.
func TestKubeadmPreflight(t *testing.T) {
	ca := stepstest.TestCA(t)
	list := kubeadm(ca)
	h := stepstest.OpenHost(t, "windows")
	const foreign, name = `C:\etc\kubernetes\pki\ca.crt`, `FileAvailable-\etc\kubernetes\pki\ca.crt`
	stepstest.Put(t, h, foreign, "of another")
	r := stepstest.Apply(t, h, nil, list)
	if r.Failed != "join" || r.Err.Summary != "kubeadm's preflight checks failed" || !strings.Contains(r.Err.Detail,
		name+`: \etc\kubernetes\pki\ca.crt already exists`) {
		t.Fatalf("step %s: %v", r.Failed, r.Err)
	}
	if have := stepstest.Text(t, h, foreign); have != "of another" {
		t.Errorf("%s holds %q", foreign, have)
	}
	for _, path := range []string{`C:\etc\kubernetes\nodejoin-kubeadm.yaml`,
		`C:\etc\kubernetes\nodejoin-discovery.conf`} {
		if _, err := h.Stat(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there after a join that failed (%v)", path, err)
		}
	}
	args := kubeadmArgs(ca,
		[]string{`C:\k\kubelet.exe`, `--bootstrap-kubeconfig=C:\etc\kubernetes\bootstrap-kubelet.conf`,
			`--kubeconfig=C:\etc\kubernetes\kubelet.conf`})
	args.Ignore = []string{name}
	list[4] = stepstest.Spec("kubeadm_join", "join", args)
	stepstest.Applied(t, h, nil, list)
	stepstest.Settled(t, h, nil, list)
}

// TestKubeadmFails: for failures other than preflight checks the error has the end of kubeadm's log.
func TestKubeadmFails(t *testing.T) {
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: t.TempDir(),
		Broken: map[string]string{"kubeadm.exe": "exit 7"}})
	stepstest.Must(t, err)
	r := stepstest.Apply(t, h, nil, kubeadm(stepstest.TestCA(t)))
	if r.Failed != "join" || r.Err.Summary != "kubeadm could not join the machine" || !strings.Contains(r.Err.Detail,
		"exit code 7") || !strings.Contains(r.Err.Detail, "join --config") {
		t.Fatalf("step %s: %v", r.Failed, r.Err)
	}
	if strings.Contains(r.Err.Error(), "abcdef.0123456789abcdef") {
		t.Error("the error holds the token")
	}
}

// TestKubeadmForeignService: somebody else's kubelet service is refused before anything is changed.
func TestKubeadmForeignService(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	stepstest.Put(t, h, `C:\foreign\kubelet.exe`, "kubelet")
	stepstest.Must(t,
		h.CreateService(t.Context(), host.ServiceConfig{Name: "kubelet", Command: []string{`C:\foreign\kubelet.exe`},
			Start: host.StartManual}))
	r := stepstest.Apply(t, h, nil,
		[]steps.Spec{stepstest.Spec("kubeadm_join", "join", kubeadmArgs(stepstest.TestCA(t), []string{`C:\k\kubelet.exe`}))})
	if r.Err == nil || r.Err.Summary != "a service of this name exists" || r.Mutations != 0 {
		t.Fatalf("%d mutating calls, %v", r.Mutations, r.Err)
	}
}

// TestKubeadmFlagsOfBefore: a flag that an older kubeadm wrote, and that the kubelet no longer has, is dropped in an
// upgrade; the others stay.
func TestKubeadmFlagsOfBefore(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	const file = `C:\var\lib\kubelet\kubeadm-flags.env`
	stepstest.Put(t, h, file,
		`KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=npipe:////./pipe/x `+
			`--pod-infra-container-image=registry.k8s.io/pause:3.9 --v 3"`+"\n")
	stepstest.Put(t, h, `C:\k\worker.exe`, "worker")
	run := func(gone ...string) []string {
		s := stepstest.Service("worker", `C:\k\worker.exe`, "--v=2")
		s.FlagsFile, s.FlagsGone = file, gone
		stepstest.Applied(t, h, stepstest.Memory{}, []steps.Spec{stepstest.Spec("service", "worker", s)})
		stepstest.Settled(t, h, stepstest.Memory{}, []steps.Spec{stepstest.Spec("service", "worker", s)})
		svc, err := h.Service(t.Context(), "worker")
		stepstest.Must(t, err)
		return svc.Command[1:]
	}
	if have, want := run(), []string{"--v=2", "--container-runtime-endpoint=npipe:////./pipe/x",
		"--pod-infra-container-image=registry.k8s.io/pause:3.9"}; !slices.Equal(have, want) {
		t.Errorf("before: %q, want %q", have, want)
	}
	if have, want := run("container-runtime", "pod-infra-container-image"),
		[]string{"--v=2", "--container-runtime-endpoint=npipe:////./pipe/x"}; !slices.Equal(have, want) {
		t.Errorf("after: %q, want %q", have, want)
	}
}
