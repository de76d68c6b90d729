package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

// servingCSR is the request of a kubelet.
func servingCSR(t *testing.T, name, user string, created time.Time) certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: user, Organization: []string{"system:nodes"}},
			DNSNames: []string{"win-1"}, IPAddresses: []net.IP{net.ParseIP("192.0.2.1")},
			EmailAddresses: []string{"a@example.com"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name,
		CreationTimestamp: metav1.NewTime(created)},
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeletServingSignerName,
			Username: user, Groups: []string{"system:nodes"},
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			Usages:  []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}}}
}

// TestServingRequests: the list holds the requests of the node's own user, newest first.
// An approval is one condition, set once.
func TestServingRequests(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	list := certificatesv1.CertificateSigningRequestList{Items: []certificatesv1.CertificateSigningRequest{
		servingCSR(t, "csr-old", "system:node:win-1", now.Add(-time.Hour)),
		servingCSR(t, "csr-other", "system:node:win-2", now), servingCSR(t, "csr-new", "system:node:win-1", now)}}
	list.Items = append(list.Items,
		certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr-broken",
			CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Hour))},
			Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeletServingSignerName,
				Username: "system:node:win-1", Request: []byte("x")}})
	approvals := 0
	a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch path := r.URL.Path; {
		case r.Method == http.MethodGet && strings.HasSuffix(path, "/certificatesigningrequests"):
			if have := r.URL.Query().Get("fieldSelector"); have != "spec.signerName=kubernetes.io/kubelet-serving" {
				t.Errorf("field selector %q", have)
			}
			_ = json.NewEncoder(w).Encode(list)
		case r.Method == http.MethodGet && strings.HasSuffix(path, "/csr-new"):
			_ = json.NewEncoder(w).Encode(list.Items[2])
		case r.Method == http.MethodPut && strings.HasSuffix(path, "/csr-new/approval"):
			approvals++
			var q certificatesv1.CertificateSigningRequest
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				t.Error(err)
			}
			list.Items[2].Status = q.Status
			_ = json.NewEncoder(w).Encode(q)
		default:
			t.Errorf("%s %s", r.Method, path)
			w.WriteHeader(http.StatusNotFound)
		}
	})
	have, err := a.ServingRequests(t.Context(), "win-1")
	if err != nil || len(have) != 3 || have[0].Name != "csr-new" || have[1].Name != "csr-old" ||
		have[2].Name != "csr-broken" {
		t.Fatalf("requests %+v, %v", have, err)
	}
	want := kube.ServingRequest{SigningRequest: kube.SigningRequest{Name: "csr-new", Requestor: "system:node:win-1",
		Created: have[0].Created},
		Groups: []string{"system:nodes"}, Usages: []string{"digital signature", "server auth"},
		CommonName: "system:node:win-1", Organization: []string{"system:nodes"},
		DNSNames: []string{"win-1"}, IPs: []string{"192.0.2.1"}, Others: []string{"a@example.com"}}
	if d := cmp.Diff(want, have[0]); d != "" {
		t.Errorf("(-want +have):\n%s", d)
	}
	if have[2].CommonName != "" || len(have[2].DNSNames)+len(have[2].IPs) != 0 {
		t.Errorf("an invalid request asks for %+v", have[2])
	}
	for range 2 {
		if err := a.ApproveRequest(t.Context(), "csr-new"); err != nil {
			t.Fatal(err)
		}
	}
	if have, err = a.ServingRequests(t.Context(), "win-1"); err != nil || !have[0].Approved || approvals != 1 {
		t.Errorf("after %d approvals: %+v, %v", approvals, have[0], err)
	}
}
