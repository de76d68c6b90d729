package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"nodejoin/steps/host"
)

// The default addresses at which the programs answer: kubelet's healthzPort, kube-proxy's healthzBindAddress,
// containerd's grpc address and dockerd's host.
var (
	healthPorts = map[string]string{"10248": kubelet, "10256": kubeProxy}
	pipes       = map[string]map[string]string{ // by OS and program
		"windows": {containerd: `\\.\pipe\containerd-containerd`, dockerd: `\\.\pipe\docker_engine`,
			csiProxy: `\\.\pipe\csi-proxy-filesystem-v1`},
		"linux": {containerd: "/run/containerd/containerd.sock", dockerd: "/var/run/docker.sock"},
	}
	grpcMethods = []string{"/runtime.v1.RuntimeService/", "/runtime.v1alpha2.RuntimeService/",
		"/containerd.services.version.v1.Version/"}
)

// running reports whether a service runs the simulated program.
func (h *Host) running(s *state, name string) bool {
	_, ok := h.runs(s, name)
	return ok
}

// runs returns the simulated program that a service runs.
func (h *Host) runs(s *state, name string) (program, bool) {
	for _, svc := range s.Services {
		if svc.State != host.ServiceRunning {
			continue
		}
		if p, ok := h.program(svc.Ran, svc.Environment); ok && p.name == name {
			return p, true
		}
	}
	return program{}, false
}

// exporterPort returns the port of a running windows_exporter, "" if none runs.
func (h *Host) exporterPort(s *state) string {
	p, ok := h.runs(s, exporter)
	if !ok {
		return ""
	}
	_, port, _ := strings.Cut(or(p.flag("web.listen-address"), ":9182"), ":")
	return port
}

// ProbeHTTP asks a simulated program for its health.
func (h *Host) ProbeHTTP(ctx context.Context, address string) (int, error) {
	status := 0
	err := h.view(ctx, "ask", address, func(s *state) error {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" || !h.own(u.Hostname()) {
			return fmt.Errorf("%w: not an http address of the machine itself", fs.ErrInvalid)
		}
		if port := h.exporterPort(s); port != "" && u.Port() == port {
			status = http.StatusNotFound
			if u.Path == "/health" || u.Path == "/metrics" {
				status = http.StatusOK
			}
			return nil
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

// ProbePipe connects to the pipe of a simulated containerd, dockerd or csi-proxy. containerd serves every
// version of the CRI; dockerd has no gRPC.
func (h *Host) ProbePipe(ctx context.Context, address, grpcMethod string) error {
	return h.view(ctx, "connect to", address, func(s *state) error {
		name := h.serverOf(s, address)
		if name == "" {
			return fs.ErrNotExist
		}
		served := func(prefix string) bool { return strings.HasPrefix(grpcMethod, prefix) }
		switch {
		case grpcMethod == "":
			return nil
		case name == dockerd:
			return fmt.Errorf("%s: the answer is not gRPC", grpcMethod)
		case name == csiProxy:
			return errors.New("grpc-status 12: unknown service " + grpcMethod)
		case !slices.ContainsFunc(grpcMethods, served):
			return errors.New("grpc-status 12: unknown service " + grpcMethod)
		}
		return nil
	})
}

// serverOf names the played program that serves a pipe or socket; "" = none does.
func (h *Host) serverOf(s *state, address string) string {
	at := strings.TrimPrefix(strings.TrimPrefix(address, "npipe://"), "unix://")
	if h.windows() {
		at = strings.ReplaceAll(at, "/", `\`)
	}
	for program, address := range pipes[h.cfg.OS] {
		if h.fold(at) == h.fold(address) && h.running(s, program) {
			return program
		}
	}
	return ""
}
