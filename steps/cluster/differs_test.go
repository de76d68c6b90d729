package cluster

import (
	"testing"

	"nodejoin/steps/kube"
)

// TestDiffersInStatus: the status that a controller writes while an object is compared is no difference, unless the
// plan has a status.
func TestDiffersInStatus(t *testing.T) {
	object := func(status any) map[string]any {
		o := map[string]any{"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"x": "y"}}
		if status != nil {
			o["status"] = status
		}
		return o
	}
	have, then := object(nil), object(map[string]any{"observedGeneration": int64(1)})
	for _, tt := range []struct {
		want  map[string]any
		diffs int
	}{{object(nil), 0}, {object(map[string]any{"a": "b"}), 1}} {
		if d := new(client).differs(kube.Manifest{Object: tt.want}, have, then); len(d) != tt.diffs {
			t.Errorf("%v: %+v, want %d differences", tt.want, d, tt.diffs)
		}
	}
}
