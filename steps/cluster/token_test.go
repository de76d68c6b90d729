package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

// TestTokenBinding: from 1.31 on, tokens are bound to the Node. If the API server is older, or refuses that, they are
// bound to a Secret that the Node owns.
func TestTokenBinding(t *testing.T) {
	for _, c := range []struct {
		name, version string
		refuses       bool // the feature gate is off
		want          []string
	}{
		{"Node", "v1.31.0", false, []string{"token Node/n u 1h"}},
		{"gate off", "v1.32.1", true, []string{"token Node/n u 1h", "secret owned by n u",
			"token Secret/nodejoin-token-u s 9h"}},
		{"older", "v1.30.4", false, []string{"secret owned by n u", "token Secret/nodejoin-token-u s 9h"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var did []string
			a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.Method + " " + r.URL.Path {
				case "GET /version":
					reply(w, map[string]string{"gitVersion": c.version})
				case "GET /api/v1/namespaces/ns/serviceaccounts/a.n":
					status(w, 404, metav1.StatusReasonNotFound, "not found")
				case "GET /api/v1/nodes/n":
					reply(w, corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
						ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}})
				case "POST /api/v1/namespaces/ns/secrets":
					var s corev1.Secret
					if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
						t.Error(err)
					}
					for _, o := range s.OwnerReferences {
						did = append(did, "secret owned by "+o.Name+" "+string(o.UID))
					}
					s.TypeMeta, s.UID = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, "s"
					reply(w, s)
				case "POST /api/v1/namespaces/ns/serviceaccounts/a/token":
					var q authenticationv1.TokenRequest
					if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
						t.Error(err)
					}
					to := q.Spec.BoundObjectRef
					did = append(did, fmt.Sprintf("token %s/%s %s %dh", to.Kind, to.Name, to.UID, *q.Spec.ExpirationSeconds/3600))
					if c.refuses && to.Kind == "Node" {
						status(w, 400, metav1.StatusReasonBadRequest,
							"cannot bind token to a Node object as the feature-gate is disabled")
						return
					}
					q.TypeMeta, q.Status.Token = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"}, "t"
					reply(w, q)
				default:
					t.Error(r.Method, r.URL.Path)
				}
			})
			want := kube.TokenRequest{Namespace: "ns", Name: "a", TTL: 9 * time.Hour, NodeTTL: time.Hour, Node: "n",
				UID: "u"}
			token, _, err := a.ServiceAccountToken(t.Context(), want)
			if err != nil || token != "t" {
				t.Fatalf("%q, %v", token, err)
			}
			if d := cmp.Diff(c.want, did); d != "" {
				t.Errorf("requests (-want +got):\n%s", d)
			}
			if want.UID = "other"; c.version == "v1.30.4" {
				if _, _, err := a.ServiceAccountToken(t.Context(), want); !errors.Is(err, kube.ErrChanged) {
					t.Errorf("another Node of that name: %v", err)
				}
			}
		})
	}
}

// TestEndTokens deletes what ends with one node, by its labels, rights first.
func TestEndTokens(t *testing.T) {
	const roles = "/apis/rbac.authorization.k8s.io/v1/"
	meta := metav1.ObjectMeta{Name: "x", UID: "s"}
	inNamespace := meta
	inNamespace.Namespace = "ns"
	lists := map[string]any{
		roles + "clusterrolebindings": rbacv1.ClusterRoleBindingList{Items: []rbacv1.ClusterRoleBinding{{ObjectMeta: meta}}},
		roles + "clusterroles":        rbacv1.ClusterRoleList{Items: []rbacv1.ClusterRole{{ObjectMeta: meta}}},
		"/api/v1/serviceaccounts":     corev1.ServiceAccountList{Items: []corev1.ServiceAccount{{ObjectMeta: inNamespace}}},
		"/api/v1/secrets":             corev1.SecretList{Items: []corev1.Secret{{ObjectMeta: inNamespace}}},
	}
	var did []string
	a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			did = append(did, r.URL.Path)
			if strings.Contains(r.URL.Path, "clusterroles/") { // the garbage collector was faster
				status(w, 404, metav1.StatusReasonNotFound, "not found")
				return
			}
			reply(w, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Success"})
			return
		}
		q := r.URL.Query().Get("labelSelector")
		if lists[r.URL.Path] == nil || q != nodeLabel+"=n,"+tokenLabel+"=true" {
			t.Error(r.URL)
		}
		reply(w, lists[r.URL.Path])
	})
	if err := a.EndTokens(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	want := []string{roles + "clusterrolebindings/x", roles + "clusterroles/x", "/api/v1/namespaces/ns/serviceaccounts/x",
		"/api/v1/namespaces/ns/secrets/x"}
	if d := cmp.Diff(want, did); d != "" {
		t.Error(d)
	}
}

// TestBindsToNodes: where the version leaves it open, the API server is asked in a way that mints no token.
func TestBindsToNodes(t *testing.T) {
	for _, c := range []struct {
		name, version string
		code          int // of the answer to the request for a token; 0 = none is sent
		want          bool
	}{
		{"older", "v1.30.14", 0, false},
		{"gate off", "v1.31.0", http.StatusBadRequest, false},
		{"no such Node", "v1.32.1+k3s1", http.StatusNotFound, true},
		{"a Node of that name", "v1.32.1", http.StatusConflict, true},
		{"always", "v1.33.0-gke.1", 0, true},
		{"unknown", "main", http.StatusNotFound, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/version" {
					reply(w, map[string]string{"gitVersion": c.version})
					return
				}
				var q authenticationv1.TokenRequest
				if err := json.NewDecoder(r.Body).Decode(&q); err != nil || c.code == 0 {
					t.Errorf("%s %s: %v", r.Method, r.URL, err)
				}
				if to := q.Spec.BoundObjectRef; to.Kind != "Node" || to.UID == "" {
					t.Errorf("a request for %+v could mint a token", to)
				}
				status(w, c.code, map[int]metav1.StatusReason{http.StatusBadRequest: metav1.StatusReasonBadRequest,
					http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusConflict: metav1.StatusReasonConflict}[c.code], "no")
			})
			got, err := a.(*client).bindsToNodes(t.Context(), "ns", "a")
			if err != nil || got != c.want {
				t.Errorf("%v, %v, want %v", got, err, c.want)
			}
		})
	}
}
