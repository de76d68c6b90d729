package draw

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"nodejoin/cmd/nodejoin/internal/pagetest"
	"nodejoin/plan"
	"nodejoin/steps"
)

// TestPageInBrowser: the page of 3 different nodes and of 300 equal ones fits windows of four widths.
func TestPageInBrowser(t *testing.T) {
	took := func(_, step string) time.Duration { return time.Duration(len(step)) * time.Second }
	three := nodes(3)
	for i := range three.Nodes {
		for _, id := range []string{"containerd_files", "containerd_config", "kube_proxy_kubeconfig", "a_dir", "b_dir",
			"c_dir", "d_dir", "e_dir", "f_dir", "g_dir", "net_conf", "flanneld", "cni_conf", "registered"}[:5+4*i] {
			three.Nodes[i].Steps = append(three.Nodes[i].Steps, steps.Spec{ID: id, Kind: "file", After: []string{"dir"}})
		}
	}
	for k := range 9 { // boxes of the first row, up to the drawing's upper right corner
		three.Nodes[0].Steps = append(three.Nodes[0].Steps, steps.Spec{ID: fmt.Sprintf("first_%d", k), Kind: "file"})
	}
	for _, c := range []*plan.Compiled{three, nodes(300)} {
		var b bytes.Buffer
		if err := HTML(&b, c, took); err != nil {
			t.Fatal(err)
		}
		for _, width := range []int{1700, 1400, 900, 480} {
			pagetest.Check(t, b.Bytes(), width)
		}
	}
}

// TestCritical: the longest path is measured in time, not in steps.
func TestCritical(t *testing.T) {
	n := plan.Node{Name: "a", Steps: []steps.Spec{{ID: "root"}, {ID: "x"}, {ID: "y"}, {ID: "slow"}, {ID: "end"}}}
	after := [][]int{nil, {0}, {1}, {0}, {2, 3}}
	took := map[string]time.Duration{"root": 1, "x": 1, "y": 1, "slow": 5, "end": 1}
	path, whole := critical(n, after, func(_, step string) time.Duration { return took[step] })
	if len(path) != 3 || path[1] != 3 || path[2] != 4 || whole != 7 {
		t.Errorf("%v %d", path, whole)
	}
	if path, _ := critical(n, after, func(string, string) time.Duration { return -1 }); path != nil {
		t.Errorf("without times: %v", path)
	}
}
