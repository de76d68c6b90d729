package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps"
	"nodejoin/steps/kube"
	"nodejoin/steps/wait"
)

const (
	nodeUser  = "system:node:"
	nodeGroup = "system:nodes"
	// What kube-controller-manager asks the API server before it approves what a kubelet requests for itself
	// (kubernetes pkg/controller/certificates/approver).
	selfApproval = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"

	// The signer takes a request up within seconds.
	signedIn    = time.Minute
	signedEvery = time.Second
	// backdated is what a signer may add to a certificate's life, as clocks differ: that of Kubernetes sets its begin
	// back by 5 minutes (pkg/controller/certificates/authority).
	backdated = 10 * time.Minute
)

// MintCertificate requests the certificate and approves the request, which it deletes afterwards.
func (k *client) MintCertificate(ctx context.Context, node string, ttl time.Duration) (kube.BootstrapToken, error) {
	if err := k.approvesNodes(ctx, node); err != nil {
		return kube.BootstrapToken{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return kube.BootstrapToken{}, err
	}
	text, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return kube.BootstrapToken{}, err
	}
	cert, err := k.signed(ctx, node, key, ttl, signedIn)
	if err != nil {
		return kube.BootstrapToken{}, err
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text})
	ends, err := endOf(cert, private, node, ttl)
	if err != nil {
		return kube.BootstrapToken{}, err
	}
	return k.tokenFor(ctx, node, kube.BootstrapToken{Certificate: string(cert) + string(private), Expires: ends})
}

// approvesNodes refuses a cluster that would not approve what a kubelet requests with a certificate of its own: nobody
// may be there to approve it.
func (k *client) approvesNodes(ctx context.Context, node string) error {
	what := "asking whether " + nodeUser + node + " gets its certificate"
	ask := authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{User: nodeUser + node,
			Groups: []string{nodeGroup, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: certificatesv1.GroupName,
				Resource: "certificatesigningrequests", Subresource: "selfnodeclient", Verb: "create"}}}
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	raw, err := k.any.Post().AbsPath("/apis/authorization.k8s.io/v1/subjectaccessreviews").
		SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Raw()
	if err != nil {
		return k.fail(ctx, what, err)
	}
	if err := json.Unmarshal(raw, &ask); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if ask.Status.Allowed {
		return nil
	}
	return &steps.Error{Code: steps.CodeInvalid, Summary: "the cluster does not approve certificates that Nodes renew",
		Detail: "the certificate request of a machine at its first boot would stay pending: the group " + nodeGroup +
			" has no right to the ClusterRole " + selfApproval,
		Remedy: "bind it once: kubectl create clusterrolebinding nodejoin:node-autoapprove-certificate-rotation " +
			"--clusterrole=" + selfApproval + " --group=" + nodeGroup +
			", or apply a plan with manifests { bootstrap = true }"}
}

// signed is the certificate of a node for a key, in PEM. The cluster has to sign it within a time.
func (k *client) signed(ctx context.Context, node string, key *ecdsa.PrivateKey, ttl, within time.Duration) (
	cert []byte, err error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: nodeUser + node, Organization: []string{nodeGroup}}}, key)
	if err != nil {
		return nil, err
	}
	seconds := int32(ttl / time.Second)
	requests, what := k.certs.CertificateSigningRequests(), "requesting the certificate "+nodeUser+node
	q, err := requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "nodejoin-",
			Labels: map[string]string{nodeLabel: labelValue(node)}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:           pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName:        certificatesv1.KubeAPIServerClientKubeletSignerName,
			ExpirationSeconds: &seconds,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature,
				certificatesv1.UsageClientAuth}}},
		metav1.CreateOptions{FieldManager: k.manager})
	if err != nil {
		return nil, k.fail(ctx, what, err)
	}
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		gone := requests.Delete(bounded, q.Name, metav1.DeleteOptions{})
		err = errors.Join(err, k.fail(bounded, "deleting the certificate request "+q.Name, gone))
	}()
	late := &steps.Error{Code: steps.CodeTimeout, Summary: "the cluster signs no certificate",
		Detail: fmt.Sprintf("%s: the request %s is approved, and has no certificate after %s", what, q.Name, within),
		Remedy: "see that kube-controller-manager runs its signing controller (--cluster-signing-cert-file and " +
			"--cluster-signing-key-file)"}
	ctx, cancel := context.WithTimeoutCause(ctx, within, late)
	defer cancel()
	err = wait.Until(ctx, signedEvery, func() (_ bool, err error) {
		cert, err = k.certificateOf(ctx, q.Name, what)
		return len(cert) > 0, err
	})
	return cert, err
}

// certificateOf approves a request, and returns its certificate once there is one.
func (k *client) certificateOf(ctx context.Context, request, what string) ([]byte, error) {
	q, err := k.certs.CertificateSigningRequests().Get(ctx, request, metav1.GetOptions{})
	if err != nil {
		return nil, k.fail(ctx, what, err)
	}
	state := signingRequestOf(*q)
	switch {
	case state.Issued:
		return q.Status.Certificate, nil
	case state.Denied, state.Message != "":
		return nil, fmt.Errorf("%s: %s was denied or failed: %s", what, request, state.Message)
	case state.Approved:
		return nil, nil
	}
	err = k.approve(ctx, q, "It is for the first boot of the node, which nodejoin prepares.")
	if errors.Is(err, kube.ErrChanged) { // kube-controller-manager may approve it at the same time
		err = nil
	}
	return nil, err
}

// endOf is when a certificate ends. It must be of the node and the key, and live no longer than requested.
func endOf(cert, key []byte, node string, ttl time.Duration) (time.Time, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return time.Time{}, fmt.Errorf("the certificate that the cluster has signed for %s: %w", node, err)
	}
	c, err := x509.ParseCertificate(pair.Certificate[0])
	switch {
	case err != nil:
		return time.Time{}, err
	case c.Subject.CommonName != nodeUser+node:
		return time.Time{}, fmt.Errorf("the cluster has signed a certificate of %s, not %s", c.Subject.CommonName,
			nodeUser+node)
	case c.NotAfter.Sub(c.NotBefore) > ttl+backdated:
		return time.Time{}, &steps.Error{Code: steps.CodeInvalid,
			Summary: "the cluster signs certificates that live too long",
			Detail: fmt.Sprintf("it has signed a certificate of %s until %s, and a life of %s was requested: its "+
				"signer ignores expirationSeconds. The certificate is thrown away", c.Subject.CommonName,
				c.NotAfter.UTC().Format(time.RFC3339), ttl),
			Remedy: "use Kubernetes 1.22 or newer with its own signer, or join this node with 'nodejoin apply'"}
	}
	return c.NotAfter.UTC(), nil
}
