package sandbox

import (
	"context"
	"io/fs"
	"slices"

	"nodejoin/steps/host"
)

// podRun is a pod and the program that holds its containers, which outlives the runtime: a containerd shim.
type podRun struct {
	host.Pod
	Shim string `json:"shim"` // key of its file
}

// PutPod runs a pod, as a kubelet does, held by a program of the machine.
func (h *Host) PutPod(ctx context.Context, p host.Pod, shim string) error {
	return failed("put pod", p.String(), h.change(ctx, func(s *state) error {
		key, err := h.key(shim)
		if err != nil {
			return err
		}
		s.Pods = append(s.Pods, podRun{p, key})
		return nil
	}))
}

// Pods lists the pods of the played containerd.
func (h *Host) Pods(ctx context.Context, cri string) ([]host.Pod, error) {
	var out []host.Pod
	err := h.view(ctx, "list pods of", cri, func(s *state) error {
		if h.serverOf(s, cri) != containerd {
			return fs.ErrNotExist
		}
		for _, p := range s.Pods {
			out = append(out, p.Pod)
		}
		return nil
	})
	return out, err
}

// RemovePod ends a pod with its shim.
func (h *Host) RemovePod(ctx context.Context, cri, id string) error {
	return failed("remove pod", id, h.change(ctx, func(s *state) error {
		if h.serverOf(s, cri) != containerd {
			return fs.ErrNotExist
		}
		s.Pods = slices.DeleteFunc(s.Pods, func(p podRun) bool { return p.ID == id })
		return nil
	}))
}
