package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

// TestShared: those who ask while somebody else is asking share the next answer, and no answer is older than its
// question; one that was given up is no answer for others.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a asks
		var state, asked atomic.Int64
		ask := func(ctx context.Context) (int64, error) {
			return shared(ctx, &a, "state", func() (int64, error) {
				asked.Add(1)
				seen := state.Load() // as the API server sees it when the request arrives
				select {
				case <-time.After(time.Second):
					return seen, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
		}
		var all sync.WaitGroup
		for i := range 100 { // ten a tenth of a second
			all.Go(func() {
				time.Sleep(time.Duration(i/10) * 100 * time.Millisecond)
				now := state.Add(1)
				if seen, err := ask(t.Context()); err != nil || seen < now {
					t.Errorf("asked at %d, the answer is %d, %v", now, seen, err)
				}
			})
		}
		all.Wait()
		if n := asked.Load(); n != 2 {
			t.Errorf("%d requests", n)
		}
		given, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		all.Go(func() {
			if _, err := ask(given); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("one that is given up: %v", err)
			}
		})
		synctest.Wait()
		if seen, err := ask(t.Context()); err != nil || seen != state.Load() {
			t.Errorf("after one that was given up: %d, %v", seen, err)
		}
	})
}

// TestManyHostsShareRequests: what hundreds of hosts ask for at once is not requested for each of them.
func TestManyHostsShareRequests(t *testing.T) {
	const hosts = 200
	var sent atomic.Int64
	var paths sync.Map
	together := make(chan struct{}) // until all have asked
	a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		<-together
		sent.Add(1)
		paths.Store(r.URL.Path, true)
		switch path := r.URL.Path; {
		case path == "/version":
			reply(w, map[string]string{"gitVersion": "v1.36.3"})
		case strings.HasSuffix(path, "/secrets"):
			var list corev1.SecretList
			for i := range hosts {
				name := fmt.Sprintf("n%d", i)
				list.Items = append(list.Items, corev1.Secret{ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("bootstrap-token-%06d", i), Labels: map[string]string{nodeLabel: name}}})
			}
			reply(w, list)
		case strings.HasSuffix(path, "/certificatesigningrequests"):
			reply(w, certificatesv1.CertificateSigningRequestList{})
		case strings.Contains(path, "/serviceaccounts/"):
			reply(w, corev1.ServiceAccount{})
		case strings.Contains(path, "/clusterroles/"):
			reply(w, rbacv1.ClusterRole{})
		case strings.Contains(path, "/clusterrolebindings/"):
			reply(w, rbacv1.ClusterRoleBinding{Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ns",
				Name: "a"}}})
		default:
			t.Errorf("%s %s", r.Method, r.URL)
		}
	})
	var asking, all sync.WaitGroup
	asking.Add(hosts)
	for i := range hosts {
		all.Go(func() {
			asking.Done()
			name := fmt.Sprintf("n%d", i)
			tokens, err := a.BootstrapTokens(t.Context(), name)
			if err != nil || len(tokens) != 1 || tokens[0].ID != fmt.Sprintf("%06d", i) {
				t.Errorf("tokens of %s: %+v, %v", name, tokens, err)
			}
			requests, err := a.SigningRequests(t.Context(), name)
			if err != nil || len(requests) > 0 {
				t.Errorf("requests of %s: %+v, %v", name, requests, err)
			}
			account, err := a.ServiceAccount(t.Context(), kube.ServiceAccount{Namespace: "ns", Name: "a", ClusterRole: "r"})
			if err != nil || len(account.Missing) > 0 {
				t.Errorf("the account: %+v, %v", account, err)
			}
			if _, err := a.Info(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	close(together)
	all.Wait()
	kinds := 0
	paths.Range(func(any, any) bool { kinds++; return true })
	// Each host asks for six things. A thousand requests would take 50 seconds.
	if n := sent.Load(); kinds != 6 || n > hosts/2 {
		t.Errorf("%d requests for %d things by %d hosts", n, kinds, hosts)
	}
}
