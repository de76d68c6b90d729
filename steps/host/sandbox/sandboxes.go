package sandbox

import (
	"context"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

// PutPod runs a pod, as a kubelet does, held by a program of the machine. On Windows a pod whose id is that of a
// containerd sandbox has an endpoint in the HNS network of the first name.
func (h *Host) PutPod(ctx context.Context, p host.Pod, shim string) error {
	return failed("put pod", p.String(), h.change(ctx, func(s *state) error {
		key, err := h.key(shim)
		if err != nil {
			return err
		}
		s.Pods = append(s.Pods, podRun{p, key})
		for _, key := range slices.Sorted(maps.Keys(s.Networks)) {
			if n := s.Networks[key]; len(p.ID) == idLength {
				s.Endpoints = append(s.Endpoints, host.HNSEndpoint{ID: networkID(), Name: p.ID + "_" + n.Name, Network: n.ID})
				break
			}
		}
		return nil
	}))
}

// idLength is that of the id of a containerd sandbox.
const idLength = 64

// PutHNSEndpoint makes an endpoint, as a program that is not simulated would.
func (h *Host) PutHNSEndpoint(ctx context.Context, e host.HNSEndpoint) error {
	return failed("put HNS endpoint", e.ID, h.change(ctx, func(s *state) error {
		s.Endpoints = append(s.Endpoints, copied(e))
		return nil
	}))
}

// DeleteHNSEndpoint removes an endpoint.
func (h *Host) DeleteHNSEndpoint(ctx context.Context, id string) error {
	return failed("delete HNS endpoint", id, h.change(ctx, func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		s.Endpoints = slices.DeleteFunc(s.Endpoints, func(e host.HNSEndpoint) bool { return e.ID == id })
		return nil
	}))
}

// Processes are those of services and of pods' shims.
func (h *Host) Processes(ctx context.Context, program string) ([]int, error) {
	var out []int
	err := h.view(ctx, "list processes of", program, func(s *state) error {
		key, err := h.key(program)
		for _, svc := range s.Services {
			if slices.Contains(svc.InUse, key) {
				out = append(out, svc.PID)
			}
		}
		for i, p := range s.Pods {
			if p.Shim == key {
				out = append(out, shimPIDs+i)
			}
		}
		slices.Sort(out)
		return err
	})
	return out, err
}

// shimPIDs is the process of the first pod's shim.
const shimPIDs = 100000

// EndProcesses ends services and shims of pods. The network of the pods stays.
func (h *Host) EndProcesses(ctx context.Context, program string) error {
	return failed("end processes of", program, h.change(ctx, func(s *state) error {
		key, err := h.key(program)
		if err != nil {
			return err
		}
		for _, svc := range s.Services {
			if slices.Contains(svc.InUse, key) {
				if err := h.stop(ctx, svc); err != nil {
					return err
				}
			}
		}
		s.Pods = slices.DeleteFunc(s.Pods, func(p podRun) bool { return p.Shim == key })
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

// Images lists the images of the played containerd.
func (h *Host) Images(ctx context.Context, cri string) ([]host.Image, error) {
	var out []host.Image
	err := h.view(ctx, "list images of", cri, func(s *state) error {
		if h.serverOf(s, cri) != containerd {
			return fs.ErrNotExist
		}
		q, err := h.ask(ctx, "Images", cri)
		out = host.SortImages(append([]host.Image{}, q.Images...))
		return err
	})
	return out, err
}

// Image is an image of the played containerd: one that it has, or that was pulled.
func (h *Host) Image(ctx context.Context, cri, name string) (*host.Image, error) {
	var out *host.Image
	err := h.view(ctx, "ask for image", name, func(s *state) error {
		if h.serverOf(s, cri) != containerd {
			return fs.ErrNotExist
		}
		q, err := h.ask(ctx, "Image", name)
		for _, i := range append(slices.Clone(q.Images), s.Pulled...) {
			if slices.Contains(i.Tags, name) {
				out = &i
			}
		}
		return err
	})
	return out, err
}

// PullImage plays a registry that has every image, but those of Quirks.NoImages.
func (h *Host) PullImage(ctx context.Context, cri, name string) error {
	return failed("pull image", name, h.change(ctx, func(s *state) error {
		if h.serverOf(s, cri) != containerd {
			return fs.ErrNotExist
		}
		q, err := h.ask(ctx, "PullImage", name)
		if err != nil {
			return err
		}
		if slices.Contains(q.NoImages, name) {
			return &host.PullError{Image: name, Message: name + ": not found"}
		}
		s.Pulled = append(s.Pulled, host.Image{ID: "sha256:" + name, Tags: []string{name}, Size: 1})
		return nil
	}))
}

// RemovePod ends a pod with its shim.
func (h *Host) RemovePod(ctx context.Context, cri, id string) error {
	return failed("remove pod", id, h.change(ctx, func(s *state) error {
		if h.serverOf(s, cri) != containerd {
			return fs.ErrNotExist
		}
		s.Pods = slices.DeleteFunc(s.Pods, func(p podRun) bool { return p.ID == id })
		s.Endpoints = slices.DeleteFunc(s.Endpoints, func(e host.HNSEndpoint) bool {
			return strings.HasPrefix(e.Name, id+"_")
		})
		return nil
	}))
}
