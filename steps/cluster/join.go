package cluster

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

// Bootstrap token secrets; source of the names: Kubernetes documentation,
// "Authenticating with Bootstrap Tokens".
const (
	tokenNamespace = "kube-system"
	tokenPrefix    = "bootstrap-token-"
	tokenType      = corev1.SecretType("bootstrap.kubernetes.io/token")
	// bootstrapGroup is what kubeadm binds its join permissions to.
	bootstrapGroup = "system:bootstrappers:kubeadm:default-node-token"
	// nodeLabel marks what was created for one node.
	nodeLabel = "nodejoin.dev/node"
)

var tokenID = regexp.MustCompile(`^[a-z0-9]{6}$`)

// MintToken creates a token that can authenticate, and nothing else (no signing of cluster-info: the node
// gets the CA).
func (k *client) MintToken(ctx context.Context, node string, ttl time.Duration) (kube.BootstrapToken, error) {
	if ttl <= 0 {
		return kube.BootstrapToken{}, fmt.Errorf("creating a bootstrap token for %s: its lifetime is %s", node, ttl)
	}
	return k.tokenFor(ctx, node, kube.BootstrapToken{Expires: time.Now().Add(ttl).UTC().Truncate(time.Second)})
}

// tokenFor creates the Secret of t, with an id and a secret. With t.Certificate its secret is not known to anybody and
// good for nothing.
func (k *client) tokenFor(ctx context.Context, node string, t kube.BootstrapToken) (kube.BootstrapToken, error) {
	what := "creating a bootstrap token for " + node
	var err error
	for range 5 { // an id that is taken is drawn again
		t.ID, t.Secret = randomText(6), randomText(16)
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: tokenPrefix + t.ID, Namespace: tokenNamespace,
				Labels: map[string]string{nodeLabel: labelValue(node)}},
			Type: tokenType,
			StringData: map[string]string{
				"token-id": t.ID, "token-secret": t.Secret, "expiration": t.Expires.Format(time.RFC3339),
				"usage-bootstrap-authentication": strconv.FormatBool(t.Certificate == ""),
				"usage-bootstrap-signing":        "false",
				"auth-extra-groups":              bootstrapGroup, "description": "nodejoin: join of " + node,
			},
		}
		_, err = k.core.Secrets(tokenNamespace).Create(ctx, secret, metav1.CreateOptions{FieldManager: k.manager})
		if err == nil {
			return t, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	return kube.BootstrapToken{}, k.fail(ctx, what, err)
}

// RevokeToken deletes a token's secret.
func (k *client) RevokeToken(ctx context.Context, id string) error {
	if !tokenID.MatchString(id) {
		return fmt.Errorf("%q is not the id of a bootstrap token", id)
	}
	err := k.core.Secrets(tokenNamespace).Delete(ctx, tokenPrefix+id, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) && !isForeign(err) {
		return nil
	}
	return k.fail(ctx, "revoking the bootstrap token "+id, err)
}

// BootstrapTokens lists tokens by the node's label, including expired ones.
func (k *client) BootstrapTokens(ctx context.Context, node string) ([]kube.BootstrapToken, error) {
	list, err := shared(ctx, &k.asks, "bootstrap tokens", func() (*corev1.SecretList, error) {
		return k.core.Secrets(tokenNamespace).List(ctx, metav1.ListOptions{LabelSelector: nodeLabel,
			FieldSelector: "type=" + string(tokenType)})
	})
	if err != nil {
		return nil, k.fail(ctx, "listing the bootstrap tokens", err)
	}
	var out []kube.BootstrapToken
	for _, s := range list.Items {
		id := strings.TrimPrefix(s.Name, tokenPrefix)
		if s.Labels[nodeLabel] != labelValue(node) || !tokenID.MatchString(id) {
			continue
		}
		expires, _ := time.Parse(time.RFC3339, string(s.Data["expiration"]))
		out = append(out, kube.BootstrapToken{ID: id, Expires: expires})
	}
	return out, nil
}

// labelValue turns a node name into a label value of at most 63 characters; a digest keeps longer names
// distinct.
func labelValue(node string) string {
	if len(node) <= 63 {
		return node
	}
	sum := sha256.Sum256([]byte(node))
	return node[:46] + "-" + hex.EncodeToString(sum[:8])
}

// randomText draws n characters of a-z0-9, uniformly.
func randomText(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	const fair = 256 - 256%len(letters)
	out := make([]byte, 0, n)
	buf := make([]byte, 2*n)
	for {
		rand.Read(buf) // never fails (crypto/rand)
		for _, b := range buf {
			if int(b) < fair {
				if out = append(out, letters[int(b)%len(letters)]); len(out) == n {
					return string(out)
				}
			}
		}
	}
}

// SigningRequests lists the kubelet client requests whose subject is the node.
func (k *client) SigningRequests(ctx context.Context, node string) ([]kube.SigningRequest, error) {
	list, err := k.requestsTo(ctx, certificatesv1.KubeAPIServerClientKubeletSignerName)
	if err != nil {
		return nil, k.fail(ctx, "listing certificate signing requests", err)
	}
	var out []kube.SigningRequest
	for _, q := range list.Items {
		if commonName(q.Spec.Request) == "system:node:"+node {
			out = append(out, signingRequestOf(q))
		}
	}
	slices.SortFunc(out, newestFirst)
	return out, nil
}

type requestList = certificatesv1.CertificateSigningRequestList

// requestsTo lists the requests to a signer.
func (k *client) requestsTo(ctx context.Context, signer string) (*requestList, error) {
	return shared(ctx, &k.asks, "requests to "+signer, func() (*requestList, error) {
		return k.certs.CertificateSigningRequests().List(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + signer})
	})
}

func signingRequestOf(q certificatesv1.CertificateSigningRequest) kube.SigningRequest {
	out := kube.SigningRequest{Name: q.Name, Requestor: q.Spec.Username, Created: q.CreationTimestamp.Time,
		Issued: len(q.Status.Certificate) > 0}
	for _, c := range q.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateApproved:
			out.Approved = true
			continue
		case certificatesv1.CertificateDenied:
			out.Denied = true
		}
		out.Message = strings.TrimSuffix(c.Reason+": "+c.Message, ": ") // of Denied or Failed
	}
	return out
}

// commonName is the subject of a PEM request; "" if there is none.
func commonName(request []byte) string {
	b, _ := pem.Decode(request)
	if b == nil {
		return ""
	}
	r, err := x509.ParseCertificateRequest(b.Bytes)
	if err != nil {
		return ""
	}
	return r.Subject.CommonName
}
