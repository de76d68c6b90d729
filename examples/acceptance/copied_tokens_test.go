package acceptance_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodejoin/examples/acceptance/internal/controlplane"
)

// copiedTokenEnds bounds how long a copy of a token works once the Node is gone. The API server remembers for ten
// seconds that a token is good (kubernetes pkg/kubeapiserver/options/authentication.go, TokenSuccessCacheTTL).
const copiedTokenEnds = time.Minute

// copyTokens are clients with copies of all tokens in the folder, by the names of their files. Each works.
func copyTokens(ctx context.Context, t *testing.T, c *controlplane.Cluster,
	folder string) map[string]*kubernetes.Clientset {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.token"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Errorf("no token in %s", folder)
	}
	out := map[string]*kubernetes.Clientset{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		config := &rest.Config{Host: c.URL, BearerToken: string(text), TLSClientConfig: rest.TLSClientConfig{CAData: c.CA}}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := whoami(ctx, client); err != nil {
			t.Errorf("%s of a joined node: %v", filepath.Base(file), err)
		}
		out[filepath.Base(file)] = client
	}
	return out
}

// wantEnded waits until the API server answers 401 to each copy. It counts from gone, when the Node was gone.
func wantEnded(ctx context.Context, t *testing.T, copies map[string]*kubernetes.Clientset, gone time.Time) {
	t.Helper()
	ctx, cancel := context.WithDeadline(ctx, gone.Add(copiedTokenEnds))
	defer cancel()
	for file, client := range copies {
		for {
			err := whoami(ctx, client)
			if apierrors.IsUnauthorized(err) {
				t.Logf("a copy of %s: 401 at most %.1fs after the Node was gone", file, time.Since(gone).Seconds())
				break
			}
			select {
			case <-time.After(100 * time.Millisecond):
				continue
			case <-ctx.Done():
			}
			t.Errorf("a copy of %s is not refused %s after the Node was gone: %v", file, copiedTokenEnds, err)
			break
		}
	}
}

func whoami(ctx context.Context, client *kubernetes.Clientset) error {
	_, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	return err
}
