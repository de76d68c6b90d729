//go:build windows

package windows

import (
	"context"
	"net"
	"strings"

	"github.com/Microsoft/go-winio"

	"nodejoin/steps/host"
	"nodejoin/steps/host/cri"
	"nodejoin/steps/host/probe"
)

// ProbeHTTP asks url, which must be of this machine, and gives the status code.
func (h *Host) ProbeHTTP(ctx context.Context, address string) (int, error) {
	status, err := probe.HTTP(ctx, address)
	return status, failed("probe", address, err)
}

// ProbePipe connects to a named pipe or a unix socket and, with a grpcMethod,
// makes that call with an empty message.
func (h *Host) ProbePipe(ctx context.Context, address, grpcMethod string) error {
	return failed("probe", address, probe.Pipe(ctx, dialPipe, address, grpcMethod))
}

// dialPipe connects to a named pipe, in Windows' form or as npipe://./pipe/NAME, or to a unix socket.
func dialPipe(ctx context.Context, address string) (net.Conn, error) {
	slashes := strings.ReplaceAll(strings.TrimPrefix(address, "npipe://"), "/", `\`)
	if strings.HasPrefix(slashes, `\\`) {
		return winio.DialPipeContext(ctx, slashes)
	}
	return probe.Unix(ctx, address)
}

// Pods lists the pods of a container runtime.
func (h *Host) Pods(ctx context.Context, address string) ([]host.Pod, error) {
	pods, err := cri.Runtime{Dial: dialPipe, Address: address}.Pods(ctx)
	return pods, failed("list pods of", address, err)
}

// Images lists the images of a container runtime.
func (h *Host) Images(ctx context.Context, address string) ([]host.Image, error) {
	images, err := cri.Runtime{Dial: dialPipe, Address: address}.Images(ctx)
	return images, failed("list images of", address, err)
}

// Image is an image of a container runtime.
func (h *Host) Image(ctx context.Context, address, name string) (*host.Image, error) {
	image, err := cri.Runtime{Dial: dialPipe, Address: address}.Image(ctx, name)
	return image, failed("ask for image", name, err)
}

// PullImage has a container runtime pull an image.
func (h *Host) PullImage(ctx context.Context, address, name string) error {
	return failed("pull image", name, cri.Runtime{Dial: dialPipe, Address: address}.Pull(ctx, name))
}

// RemovePod stops and removes a pod of a container runtime.
func (h *Host) RemovePod(ctx context.Context, address, id string) error {
	return failed("remove pod", id, cri.Runtime{Dial: dialPipe, Address: address}.Remove(ctx, id))
}

// ProbeAPI asks an API server from this machine.
func (h *Host) ProbeAPI(ctx context.Context, url string) (host.APIAnswer, error) {
	answer, err := probe.API(ctx, url)
	return answer, failed("ask", url, err)
}

// ProbeTCP connects to another machine from this one.
func (h *Host) ProbeTCP(ctx context.Context, address string) error {
	return failed("connect to", address, probe.TCP(ctx, address))
}
