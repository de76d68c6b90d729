package verify

import (
	"testing"

	"nodejoin/steps/kube"
)

// A web server whose container ends and is started again does not serve.
func TestServes(t *testing.T) {
	up, ended := kube.ContainerState{Name: "web", Up: true, Failed: true, Tries: 1},
		kube.ContainerState{Name: "web", Failed: true, ExitCode: 128, Tries: 2}
	for _, c := range []struct {
		pod  kube.PodState
		want bool
	}{
		{kube.PodState{Running: true, IP: "10.244.0.9", Containers: []kube.ContainerState{up}}, true},
		{kube.PodState{Running: true, IP: "10.244.0.9", Containers: []kube.ContainerState{ended}}, false},
		{kube.PodState{Running: true, Containers: []kube.ContainerState{up}}, false},
		{kube.PodState{IP: "10.244.0.9"}, false},
	} {
		if have := serves(c.pod); have != c.want {
			t.Errorf("%+v: %t, want %t", c.pod, have, c.want)
		}
	}
}
