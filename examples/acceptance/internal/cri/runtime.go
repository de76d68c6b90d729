// Package cri is a stand-in for the container runtime of a kubelet that runs where no container can: under Wine. Pods
// have a sandbox and no containers. An image is pulled for real, from its registry, with the credentials that the
// kubelet gives; nothing is unpacked.
package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Pull is a pull that the kubelet has asked for.
type Pull struct {
	Image, User string
	Err         error
}

// Runtime answers the calls of one kubelet.
type Runtime struct {
	runtime.UnimplementedRuntimeServiceServer
	runtime.UnimplementedImageServiceServer

	client *http.Client
	server *grpc.Server
	addr   string
	ended  chan error

	mu        sync.Mutex
	sandboxes []*runtime.PodSandbox
	pulls     []Pull
}

// Start listens on loopback. Close must be called. client reaches registries.
func Start(ctx context.Context, client *http.Client) (*Runtime, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Runtime{client: client, server: grpc.NewServer(), addr: l.Addr().String(), ended: make(chan error, 1)}
	runtime.RegisterRuntimeServiceServer(r.server, r)
	runtime.RegisterImageServiceServer(r.server, r)
	go func() { r.ended <- r.server.Serve(l) }()
	return r, nil
}

// Close ends the runtime.
func (r *Runtime) Close() error {
	r.server.Stop()
	return <-r.ended
}

// Endpoint is what the kubelet's configuration names.
func (r *Runtime) Endpoint() string { return "tcp://" + r.addr }

// Pulls are the pulls so far.
func (r *Runtime) Pulls() []Pull {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Pull(nil), r.pulls...)
}

// Version implements runtime.RuntimeServiceServer.
func (r *Runtime) Version(context.Context, *runtime.VersionRequest) (*runtime.VersionResponse, error) {
	return &runtime.VersionResponse{Version: "0.1.0", RuntimeName: "stand-in", RuntimeVersion: "1.0.0",
		RuntimeApiVersion: "v1"}, nil
}

// Status implements runtime.RuntimeServiceServer.
func (r *Runtime) Status(context.Context, *runtime.StatusRequest) (*runtime.StatusResponse, error) {
	return &runtime.StatusResponse{Status: &runtime.RuntimeStatus{Conditions: []*runtime.RuntimeCondition{
		{Type: runtime.RuntimeReady, Status: true}, {Type: runtime.NetworkReady, Status: true}}}}, nil
}

// RunPodSandbox implements runtime.RuntimeServiceServer.
func (r *Runtime) RunPodSandbox(_ context.Context, q *runtime.RunPodSandboxRequest) (*runtime.RunPodSandboxResponse,
	error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := q.Config
	id := fmt.Sprintf("sandbox-%d", len(r.sandboxes)+1)
	r.sandboxes = append(r.sandboxes, &runtime.PodSandbox{Id: id, Metadata: c.Metadata, Labels: c.Labels,
		Annotations: c.Annotations, State: runtime.PodSandboxState_SANDBOX_READY, CreatedAt: time.Now().UnixNano()})
	return &runtime.RunPodSandboxResponse{PodSandboxId: id}, nil
}

// ListPodSandbox implements runtime.RuntimeServiceServer.
func (r *Runtime) ListPodSandbox(context.Context, *runtime.ListPodSandboxRequest) (*runtime.ListPodSandboxResponse,
	error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &runtime.ListPodSandboxResponse{Items: append([]*runtime.PodSandbox(nil), r.sandboxes...)}, nil
}

// PodSandboxStatus implements runtime.RuntimeServiceServer.
func (r *Runtime) PodSandboxStatus(_ context.Context,
	q *runtime.PodSandboxStatusRequest) (*runtime.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sandboxes {
		if s.Id == q.PodSandboxId {
			return &runtime.PodSandboxStatusResponse{Status: &runtime.PodSandboxStatus{Id: s.Id, Metadata: s.Metadata,
				State: s.State, CreatedAt: s.CreatedAt, Labels: s.Labels, Annotations: s.Annotations,
				Network: &runtime.PodSandboxNetworkStatus{Ip: "192.0.2.77"}}}, nil
		}
	}
	return nil, status.Error(codes.NotFound, q.PodSandboxId)
}

// ListContainers implements runtime.RuntimeServiceServer.
func (r *Runtime) ListContainers(context.Context, *runtime.ListContainersRequest) (*runtime.ListContainersResponse,
	error) {
	return &runtime.ListContainersResponse{}, nil
}

// ListImages implements runtime.ImageServiceServer.
func (r *Runtime) ListImages(context.Context, *runtime.ListImagesRequest) (*runtime.ListImagesResponse, error) {
	return &runtime.ListImagesResponse{}, nil
}

// ImageStatus implements runtime.ImageServiceServer: no image is there.
func (r *Runtime) ImageStatus(context.Context, *runtime.ImageStatusRequest) (*runtime.ImageStatusResponse, error) {
	return &runtime.ImageStatusResponse{}, nil
}

// ImageFsInfo implements runtime.ImageServiceServer.
func (r *Runtime) ImageFsInfo(context.Context, *runtime.ImageFsInfoRequest) (*runtime.ImageFsInfoResponse, error) {
	return &runtime.ImageFsInfoResponse{}, nil
}

// PullImage implements runtime.ImageServiceServer: it asks the registry for the image's manifest.
func (r *Runtime) PullImage(ctx context.Context, q *runtime.PullImageRequest) (*runtime.PullImageResponse, error) {
	digest, err := r.manifest(ctx, q.Image.Image, q.Auth)
	r.mu.Lock()
	r.pulls = append(r.pulls, Pull{q.Image.Image, q.Auth.GetUsername(), err})
	r.mu.Unlock()
	if err != nil {
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return &runtime.PullImageResponse{ImageRef: digest}, nil
}

func (r *Runtime) manifest(ctx context.Context, image string, auth *runtime.AuthConfig) (digest string, err error) {
	registry, name, ok := strings.Cut(image, "/")
	name, tag, tagged := strings.Cut(name, ":")
	if !ok || !tagged {
		return "", fmt.Errorf("%q is not REGISTRY/NAME:TAG", image)
	}
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+registry+"/v2/"+name+"/manifests/"+tag, nil)
	if err != nil {
		return "", err
	}
	ask.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json")
	if auth != nil {
		ask.SetBasicAuth(auth.Username, auth.Password)
	}
	answer, err := r.client.Do(ask)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return "", err
	}
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", ask.URL, answer.Status)
	}
	return answer.Header.Get("Docker-Content-Digest"), nil
}
