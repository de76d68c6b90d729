package kinds

import (
	"context"
	"fmt"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

var credentialsReadyKind = steps.Kind{Name: "credentials_ready", Place: steps.OnHost, Waits: true,
	Timeout: 5 * time.Minute, Doc: "a gate: a kubeconfig holds a valid client certificate of the node",
	New: func() any { return &CredentialsReady{} }, Credentials: steps.Credentials((*CredentialsReady).credentials),
	Gate: steps.Gate((*CredentialsReady).behind)}

// CredentialsReady waits until a kubeconfig of the cluster holds a client
// certificate of the node, with its key, that is valid for a while yet. It is what
// Unless of Kubeconfig asks for. That the Node is registered or Ready does not show
// it: the Node may be left from an earlier life of the machine, and a kubelet writes
// its kubeconfig before it has the certificate that this names
// (kubernetes pkg/kubelet/certificate/bootstrap).
type CredentialsReady struct {
	Path    string `json:"path" doc:"absolute path of the kubeconfig" id:"true" path:"true"`
	Server  string `json:"server,omitempty" doc:"URL of the API server; default any of a cluster with that CA"`
	CA      string `json:"ca" doc:"PEM of the cluster's CA that it must trust"`
	Service string `json:"service,omitempty" doc:"as for http_ready"`
	Log     string `json:"log,omitempty" doc:"as for http_ready" path:"true"`
}

func (p *CredentialsReady) behind() string { return p.Service }

func (p *CredentialsReady) gate(e *steps.Env) readiness {
	return readiness{what: fmt.Sprintf("%s holds a valid client certificate of node %s", p.Path, e.Node),
		service: p.Service, log: p.Log,
		observe: func(ctx context.Context, r host.Reader) (observation, error) {
			why, err := clientConfig{path: p.Path, server: p.Server, ca: p.CA}.unusable(ctx, r, e, time.Now())
			return observation{ok: err == nil && why == "", observed: why}, err
		}}
}

func (p *CredentialsReady) validate() error {
	if p.Path == "" || p.Server == "" && p.CA == "" {
		return steps.Invalid("credentials_ready needs the path of a kubeconfig, and its server or its CA")
	}
	return nil
}

func (p *CredentialsReady) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if err := p.validate(); err != nil {
		return steps.Change{}, err
	}
	return p.gate(e).check(ctx, r, e)
}

func (p *CredentialsReady) Apply(ctx context.Context, h host.Host, e *steps.Env, c steps.Change) (
	steps.Outcome, error) {
	return p.gate(e).apply(ctx, h, e)
}

// credentials is the client certificate, which the kubeconfig holds or names.
func (p *CredentialsReady) credentials(ctx context.Context, r host.FilesReader, os string) ([]steps.Credential,
	error) {
	text, err := textOf(ctx, r, p.Path)
	f, wrong := parseKubeconfig([]byte(text))
	if err != nil || wrong != nil {
		return nil, err
	}
	path, pem := p.Path, string(f.secret.CertData)
	if pem == "" && f.secret.CertFile != "" {
		path = besides(os, p.Path, f.secret.CertFile)
		pem, err = textOf(ctx, r, path)
	}
	return certificateLife("client certificate", path, pem), err
}
