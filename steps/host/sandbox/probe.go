package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"nodejoin/steps/host"
)

// Where the programs answer: kubelet's healthzPort, kube-proxy's healthzBindAddress
// and containerd's grpc address, by their defaults.
var (
	healthPorts = map[string]string{"10248": kubelet, "10256": kubeProxy}
	pipes       = map[string]string{"windows": `\\.\pipe\containerd-containerd`, "linux": "/run/containerd/containerd.sock"}
)

// running tells whether a service runs the played program.
func (h *Host) running(s *state, name string) bool {
	for _, svc := range s.Services {
		if svc.State != host.ServiceRunning {
			continue
		}
		if p, ok := h.program(svc.Ran, svc.Environment); ok && p.name == name {
			return true
		}
	}
	return false
}

// ProbeHTTP asks a played program for its health.
func (h *Host) ProbeHTTP(ctx context.Context, address string) (int, error) {
	status := 0
	err := h.view(ctx, "ask", address, func(s *state) error {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" || !h.own(u.Hostname()) {
			return fmt.Errorf("%w: not an http address of the machine itself", fs.ErrInvalid)
		}
		name, ok := healthPorts[u.Port()]
		if !ok || !h.running(s, name) {
			return fmt.Errorf("dial %s: %w", u.Host, syscall.ECONNREFUSED)
		}
		status = http.StatusNotFound
		if u.Path == "/healthz" || name == kubeProxy && u.Path == "/livez" {
			status = http.StatusOK
		}
		return nil
	})
	return status, err
}

// ProbePipe connects to the pipe of a played containerd.
func (h *Host) ProbePipe(ctx context.Context, address, grpcMethod string) error {
	return h.view(ctx, "connect to", address, func(s *state) error {
		at := strings.TrimPrefix(strings.TrimPrefix(address, "npipe://"), "unix://")
		if h.windows() {
			at = strings.ReplaceAll(at, "/", `\`)
		}
		if h.fold(at) != h.fold(pipes[h.cfg.OS]) || !h.running(s, containerd) {
			return fs.ErrNotExist
		}
		if grpcMethod != "" && !strings.HasPrefix(grpcMethod, "/runtime.v1.RuntimeService/") && !strings.HasPrefix(grpcMethod, "/containerd.services.version.v1.Version/") {
			return errors.New("grpc-status 12: unknown service " + grpcMethod)
		}
		return nil
	})
}
