package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // client-go takes its types
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"

	"nodejoin/steps/kube"
)

// maxAnswer bounds what a kubelet answers, in bytes.
const maxAnswer = 8 << 20

// PodLog reads the log of a pod.
func (k *client) PodLog(ctx context.Context, namespace, name string) (string, error) {
	return k.answer(ctx, "reading the log of the pod "+namespace+"/"+name,
		k.core.rest.Get().Namespace(namespace).Resource("pods").Name(name).SubResource("log").
			Param("limitBytes", "65536"))
}

// NodeMetrics reads the kubelet's resource metrics through the API server.
func (k *client) NodeMetrics(ctx context.Context, node string) (string, error) {
	return k.answer(ctx, "reading the metrics of the Node "+node,
		k.core.rest.Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("metrics/resource"))
}

func (k *client) answer(ctx context.Context, what string, r *rest.Request) (string, error) {
	body, err := r.Stream(ctx)
	if err != nil {
		return "", k.fail(ctx, what, err)
	}
	defer func() { _ = body.Close() }() // it is only read
	b, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	return string(b), k.fail(ctx, what, err)
}

// Exec runs a command in a pod: over a WebSocket, or over SPDY with an API server before 1.30.
func (k *client) Exec(ctx context.Context, namespace, name string, command []string) (string, error) {
	what := "running a command in the pod " + namespace + "/" + name
	if err := k.allowed(ctx, what, namespace, name, "exec"); err != nil {
		return "", err
	}
	at := k.core.rest.Post().Namespace(namespace).Resource("pods").Name(name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: command, Stdout: true, Stderr: true}, k.core.params).URL()
	old, err := remotecommand.NewSPDYExecutor(k.config, http.MethodPost, at)
	if err != nil {
		return "", k.fail(ctx, what, err)
	}
	socket, err := remotecommand.NewWebSocketExecutor(k.config, http.MethodGet, at.String())
	if err != nil {
		return "", k.fail(ctx, what, err)
	}
	executor, err := remotecommand.NewFallbackExecutor(socket, old, noWebSocket)
	if err != nil {
		return "", k.fail(ctx, what, err)
	}
	var out, errs bounded
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errs})
	if err != nil && errs.Len() > 0 {
		err = fmt.Errorf("%w: %s", err, errs.String())
	}
	return out.String(), k.fail(ctx, what, err)
}

// allowed returns ErrForbidden if the user may not create a subresource of a pod. An upgrade that is refused does not
// say so in a form of its own.
func (k *client) allowed(ctx context.Context, what, namespace, name, subresource string) error {
	const kind, version = "SelfSubjectAccessReview", "authorization.k8s.io/v1"
	body, err := json.Marshal(map[string]any{"kind": kind, "apiVersion": version, "spec": map[string]any{
		"resourceAttributes": map[string]any{"namespace": namespace, "verb": "create", "resource": "pods",
			"subresource": subresource, "name": name}}})
	if err != nil {
		return err
	}
	answer, err := k.any.Post().AbsPath("/apis/"+version+"/selfsubjectaccessreviews").
		SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Raw()
	if err != nil {
		return k.fail(ctx, what, err)
	}
	var review struct {
		Status struct {
			Allowed bool
			Reason  string
		}
	}
	if err := json.Unmarshal(answer, &review); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !review.Status.Allowed {
		why := "the user of the kubeconfig may not create pods/" + subresource + ": " + review.Status.Reason
		return fmt.Errorf("%s: %w: %s", what, kube.ErrForbidden, strings.TrimSuffix(why, ": "))
	}
	return nil
}

// noWebSocket reports that a server does not speak the protocol over WebSockets.
func noWebSocket(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
}

// bounded keeps the first maxAnswer bytes.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if room := maxAnswer - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))]) // never fails
	}
	return len(p), nil
}

// Forward asks a port of a pod through a forwarded one of this computer.
func (k *client) Forward(ctx context.Context, namespace, name string, port int32) error {
	what := fmt.Sprintf("forwarding port %d of the pod %s/%s", port, namespace, name)
	if err := k.allowed(ctx, what, namespace, name, "portforward"); err != nil {
		return err
	}
	dialer, err := k.forwardDialer(
		k.core.rest.Post().Namespace(namespace).Resource("pods").Name(name).SubResource("portforward").URL())
	if err != nil {
		return k.fail(ctx, what, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var errs bounded
	ready := make(chan struct{})
	f, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, ctx.Done(),
		ready, io.Discard, &errs)
	if err != nil {
		return k.fail(ctx, what, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.ForwardPorts() }()
	select {
	case err := <-ended:
		return k.fail(ctx, what, err)
	case <-ctx.Done():
		return k.fail(ctx, what, context.Cause(ctx))
	case <-ready:
	}
	err = askForwarded(ctx, f)
	cancel()
	forwarded := <-ended // the forwarder writes to errs until then
	switch {
	case err == nil:
	case errs.Len() > 0:
		err = fmt.Errorf("%w: %s", err, errs.String())
	case forwarded != nil:
		err = fmt.Errorf("%w: %w", err, forwarded)
	}
	return k.fail(context.WithoutCancel(ctx), what, err)
}

// forwardDialer connects over a WebSocket, or over SPDY with an API server before 1.31.
func (k *client) forwardDialer(at *url.URL) (httpstream.Dialer, error) {
	transport, upgrader, err := spdy.RoundTripperFor(k.config)
	if err != nil {
		return nil, err
	}
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(at, k.config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	return portforward.NewFallbackDialer(tunnel, old, noWebSocket), nil
}

// askForwarded asks for / at the forwarded port.
func askForwarded(ctx context.Context, f *portforward.PortForwarder) error {
	ports, err := f.GetPorts()
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", ports[0].Local), nil)
	if err != nil {
		return err
	}
	// No proxy: the port is on this computer.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}
