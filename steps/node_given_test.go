package steps_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

// labeled notes which labels and taints a Node is given.
type labeled struct {
	kube.API
	set            map[string]string
	removed        []string
	taints, untold []kube.Taint
}

func (l *labeled) SetLabels(_ context.Context, _ string, set map[string]string, remove []string) error {
	l.set, l.removed = set, remove
	return nil
}

func (l *labeled) SetTaints(_ context.Context, _ string, set, remove []kube.Taint) error {
	l.taints, l.untold = set, remove
	return nil
}

func (l *labeled) SetAnnotations(context.Context, string, map[string]string, []string) error {
	return nil
}

// A machine's word gives its Node no label that its kubelet could not set itself, and no taint less.
func TestGivenByAMachine(t *testing.T) {
	said := &steps.NodeGiven{
		Labels: map[string]string{"zone": "a", "node-role.kubernetes.io/control-plane": "",
			"tenant.node-restriction.kubernetes.io/x": "y",
			"node.kubernetes.io/size":                 "big"},
		Notes: map[string]string{kube.LabelsOf: `{"zone":"a",` +
			`"node-role.kubernetes.io/control-plane":"",` +
			`"tenant.node-restriction.kubernetes.io/x":"y","node.kubernetes.io/size":"big"}`},
	}
	node := kube.Node{Name: "n1", Taints: []kube.Taint{{Key: "os", Value: "windows", Effect: "NoSchedule"}},
		Annotations: map[string]string{kube.TaintsOf: `[{"key":"os","value":"windows","effect":"NoSchedule"}]`}}
	api := &labeled{}
	if err := said.OfMachine().Restore(node)(t.Context(), api); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"zone": "a", "node.kubernetes.io/size": "big"}, api.set); d != "" ||
		len(api.untold) != 0 {
		t.Errorf("labels (-want +have):\n%s\ntaints removed: %v", d, api.untold)
	}
	if err := said.Restore(node)(t.Context(), api); err != nil || len(api.set) != 4 || len(api.untold) != 1 {
		t.Errorf("of this run: %v, %v, %v", api.set, api.untold, err)
	}
	if (*steps.NodeGiven)(nil).OfMachine() != nil {
		t.Error("no Node has something")
	}
}
