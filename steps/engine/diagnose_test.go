package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/doctor"
	"nodejoin/steps/engine"
	"nodejoin/steps/kube"
)

func (w *world) diagnose() []engine.Diagnosis {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := w.session(w.compile())
	defer s.Close()
	w.limit = 0 // any change fails
	defer func() { w.limit = -1 }()
	return s.Diagnose(ctx)
}

// TestDiagnose: a pause image that does not fit the machine is a symptom that the controller finds; a similar image
// that fits is not.
func TestDiagnose(t *testing.T) {
	w := newWorld(t)
	w.one = true
	if d := w.diagnose()[0]; d.Err != nil || d.Joined || len(d.Found) == 0 {
		t.Fatalf("before the join: %+v", d)
	}
	w.mustConverge()
	config := filepath.Join(w.dir, ".sandbox", "win-1", "C", "Program Files", "containerd", "config.toml")
	image := func(name string) []doctor.Symptom {
		t.Helper()
		b, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		b = regexp.MustCompile(`(?m)^(\s*sandbox(?:_image)? = ).*$`).ReplaceAll(b, []byte("${1}'"+name+"'"))
		if err := os.WriteFile(config, b, 0o644); err != nil {
			t.Fatal(err)
		}
		d := w.diagnose()[0]
		if d.Err != nil || !d.Joined || d.Mutations != 0 {
			t.Fatalf("%s: %+v", name, d)
		}
		return slices.DeleteFunc(d.Found, func(s doctor.Symptom) bool {
			return s.ID != doctor.PauseImageSymptom && s.ID != doctor.PortForwardSymptom
		})
	}
	for name, want := range map[string]string{"registry.k8s.io/pause:3.6": "", "mirror.example/my-pause:1": "",
		"registry.k8s.io/pause:3.5":                    "pause-image",
		"mcr.microsoft.com/k8s/core/pause:1.2.0":       "pause-image port-forward",
		"mcr.microsoft.com/oss/kubernetes/pause:1.4.1": "pause-image"} {
		var ids []string
		for _, s := range image(name) {
			ids = append(ids, s.ID)
			if s.Observed == "" || s.Why == "" || s.Remedy == "" ||
				!slices.Equal(s.Fix, []string{"containerd_config", "containerd"}) {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if strings.Join(ids, " ") != want {
			t.Errorf("%s: %q, want %q", name, ids, want)
		}
	}
}

// TestDiagnoseWithoutCluster: if the API server does not answer, only the symptoms that need it are missing.
func TestDiagnoseWithoutCluster(t *testing.T) {
	w := newWorld(t)
	w.one = true
	w.mustConverge()
	if err := w.cluster().SetDown(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	d := w.diagnose()[0]
	unasked := 0
	for _, s := range d.Found {
		if s.Severity == steps.SeverityError {
			t.Errorf("%+v", s)
		}
		if s.Unasked {
			unasked++
			if !strings.Contains(s.Observed, kube.ErrUnreachable.Error()) {
				t.Errorf("%+v", s)
			}
		}
	}
	if d.Err != nil || !d.Joined || unasked == 0 {
		t.Errorf("%d not asked: %+v", unasked, d)
	}
}

// TestFixing: the steps that fix are those that are named, what must be restarted with what depends on it,
// their gates, and the steps whose values they need, in the plan's order.
func TestFixing(t *testing.T) {
	w := newWorld(t)
	node := w.compile().Nodes[0]
	for name, c := range map[string]struct {
		found doctor.Symptom
		want  string
	}{
		"nothing": {doctor.Symptom{}, ""},
		"waived":  {doctor.Symptom{Finding: steps.Finding{Waived: true}, Fix: []string{"kubelet"}}, ""},
		"file":    {doctor.Symptom{Fix: []string{"cni_conf"}}, "cni_conf"},
		"values": {doctor.Symptom{Fix: []string{"kube_proxy_config", "kube_proxy"}},
			"registered source_vip kube_proxy_config kube_proxy kube_proxy_ready"},
		"restart": {doctor.Symptom{Restart: []string{"flanneld"}},
			"kube_proxy_stop flanneld_stop registered flanneld subnet_env kube_proxy kube_proxy_ready"},
		"network": {doctor.Symptom{Fix: []string{"flannel_network"}},
			"kube_proxy_stop flanneld_stop registered flannel_network flanneld subnet_env kube_proxy kube_proxy_ready"},
	} {
		var ids []string
		for _, s := range engine.Fixes(node, []doctor.Symptom{c.found}).Steps {
			ids = append(ids, s.ID)
		}
		if have := strings.Join(ids, " "); have != c.want {
			t.Errorf("%s: %s, want %s", name, have, c.want)
		}
	}
	if n := engine.Fixes(plan.Node{}, []doctor.Symptom{{Restart: []string{"flanneld"}}}); len(n.Steps) != 0 {
		t.Errorf("a node without steps: %+v", n)
	}
}
