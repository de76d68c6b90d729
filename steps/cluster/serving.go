package cluster

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

// ServingRequests lists the requests of the signer that the node's own user made. An invalid one has no
// names, so nothing matches it.
func (k *client) ServingRequests(ctx context.Context, node string) ([]kube.ServingRequest, error) {
	list, err := k.requestsTo(ctx, certificatesv1.KubeletServingSignerName)
	if err != nil {
		return nil, k.fail(ctx, "listing certificate signing requests", err)
	}
	var out []kube.ServingRequest
	for _, q := range list.Items {
		if q.Spec.Username == "system:node:"+node {
			out = append(out, servingRequestOf(q))
		}
	}
	slices.SortFunc(out, func(a, b kube.ServingRequest) int { return newestFirst(a.SigningRequest, b.SigningRequest) })
	return out, nil
}

func servingRequestOf(q certificatesv1.CertificateSigningRequest) kube.ServingRequest {
	out := kube.ServingRequest{SigningRequest: signingRequestOf(q), Groups: q.Spec.Groups}
	for _, u := range q.Spec.Usages {
		out.Usages = append(out.Usages, string(u))
	}
	b, _ := pem.Decode(q.Spec.Request)
	if b == nil {
		return out
	}
	r, err := x509.ParseCertificateRequest(b.Bytes)
	if err != nil {
		return out
	}
	out.CommonName, out.Organization, out.DNSNames = r.Subject.CommonName, r.Subject.Organization, r.DNSNames
	for _, ip := range r.IPAddresses {
		out.IPs = append(out.IPs, ip.String())
	}
	out.Others = slices.Clone(r.EmailAddresses)
	for _, u := range r.URIs {
		out.Others = append(out.Others, u.String())
	}
	return out
}

// ApproveRequest adds the condition Approved. A request is immutable, so the one that was checked is the one
// that is approved.
func (k *client) ApproveRequest(ctx context.Context, name string) error {
	q, err := k.certs.CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return k.fail(ctx, "approving the certificate request "+name, err)
	}
	if slices.ContainsFunc(q.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved
	}) {
		return nil
	}
	return k.approve(ctx, q, "It requests the names and addresses of the node that nodejoin joined.")
}

// approve adds the condition Approved to a request as it was read. If somebody else has changed it since, the error is
// kube.ErrChanged.
func (k *client) approve(ctx context.Context, q *certificatesv1.CertificateSigningRequest, why string) error {
	what := "approving the certificate request " + q.Name
	q.Status.Conditions = append(q.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "NodejoinApproved",
		Message: why})
	_, err := k.certs.UpdateApproval(ctx, q, metav1.UpdateOptions{FieldManager: k.manager})
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%s: %w", what, kube.ErrChanged)
	}
	return k.fail(ctx, what, err)
}
