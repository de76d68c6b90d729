// Package cluster implements kube.API with client-go. It runs on the controller, with the credentials of a
// kubeconfig that never leaves it. Many calls at once share requests (asks), and a run over many nodes lists and
// watches the Nodes (nodeList); otherwise nothing is cached.
package cluster

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"nodejoin/steps/kube"
)

// Config is how the cluster is reached.
type Config struct {
	Kubeconfig string // path; its current context is used
	// CAHash pins the CA of the kubeconfig, "sha256:<hex>" as kubeadm prints it; "" trusts the kubeconfig's CA.
	CAHash       string
	Token        string // a bearer token, instead of the kubeconfig's credentials; "" = those
	FieldManager string // name of the writer in managedFields; default "nodejoin"
	// Timeout bounds one request and its response, including the connection; default 20s.
	Timeout time.Duration
}

const requestTimeout = 20 * time.Second

var _ kube.API = (*client)(nil)

// Open reads the kubeconfig and checks the CA against the pin. It sends nothing.
func Open(ctx context.Context, c Config) (kube.API, error) {
	loader := clientcmd.ClientConfigLoadingRules{ExplicitPath: c.Kubeconfig}
	raw, err := loader.Load()
	if err != nil {
		return nil, unreadable(c.Kubeconfig, err)
	}
	if why := incomplete(raw); why != "" {
		return nil, fmt.Errorf("kubeconfig %s: %s", c.Kubeconfig, why)
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*raw, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", c.Kubeconfig, err)
	}
	if c.Token != "" {
		cfg = rest.AnonymousClientConfig(cfg)
		cfg.BearerToken = c.Token
	}
	return open(cfg, c)
}

func open(cfg *rest.Config, c Config) (*client, error) {
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", c.Kubeconfig, err)
	}
	if cfg.Insecure {
		return nil, fmt.Errorf("kubeconfig %s: it does not verify the API server (insecure-skip-tls-verify), so a token "+
			"could go to anybody", c.Kubeconfig)
	}
	server, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", c.Kubeconfig, err)
	}
	if server.Scheme != "https" {
		return nil, fmt.Errorf("kubeconfig %s: the server %s does not use https; a token would be sent in plain text",
			c.Kubeconfig, server.Redacted())
	}
	ca, err := parseAuthority(cfg.CAData, c.CAHash)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", c.Kubeconfig, err)
	}
	cfg.CAData, cfg.CAFile = []byte(ca.pem), ""
	cfg.Timeout = cmp.Or(c.Timeout, requestTimeout)
	cfg.UserAgent = "nodejoin"
	cfg.WarningHandler = rest.NoWarnings{}
	cfg.ContentType = "application/json"
	cfg.RateLimiter = newLimiter() // of all groups together
	k := &client{server: strings.TrimSuffix(server.String(), "/"), ca: ca, manager: cmp.Or(c.FieldManager, "nodejoin"),
		config: cfg}
	// One transport, and so one connection, for all groups.
	h, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", c.Kubeconfig, err)
	}
	known, err := newCodecs()
	if err != nil {
		return nil, err
	}
	if k.core.group, err = known.group(cfg, h, corev1.SchemeGroupVersion); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", c.Kubeconfig, err)
	}
	if k.rbac.group, err = known.group(cfg, h, rbacv1.SchemeGroupVersion); err != nil {
		return nil, err
	}
	if k.certs.group, err = known.group(cfg, h, certificatesv1.SchemeGroupVersion); err != nil {
		return nil, err
	}
	if k.coord.group, err = known.group(cfg, h, coordinationv1.SchemeGroupVersion); err != nil {
		return nil, err
	}
	raw := rest.CopyConfig(cfg)
	raw.NegotiatedSerializer = known.WithoutConversion()
	if k.any, err = rest.UnversionedRESTClientForConfigAndClient(raw, h); err != nil {
		return nil, err
	}
	k.nodes.all, k.nodes.changes, k.nodes.nodeOf = k.listNodes, k.watchNodes, k.nodeOf
	return k, nil
}
