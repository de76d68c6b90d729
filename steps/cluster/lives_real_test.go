package cluster

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/node"
	"nodejoin/steps/nodeapi"
)

// lives is a machine with flanneld's token, its service nodejoin-node, and a program that uses the token.
type lives struct {
	*controlPlane
	host  *sandbox.Host
	root  string // of the machine, on this computer
	audit string
	ahead atomic.Int64 // of the service's clock, nanoseconds

	mu  sync.Mutex
	log []string
}

// Files of the machine.
const (
	flannelToken = "/etc/kubernetes/flannel.token"
	nodeFile     = "/var/lib/nodejoin/node.json"
)

// TestThreeLives: the service of the node renews a token in the last third of its life, three lives long and with
// nodejoin away, on a server that grants an hour. A program with that kubeconfig goes on without a restart, and no
// request is answered with 401. Once the Node is gone, no copy of the tokens is valid.
func TestThreeLives(t *testing.T) {
	dir := t.TempDir()
	l := &lives{root: filepath.Join(dir, "host"), audit: filepath.Join(dir, "audit.log")}
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	l.controlPlane = startControlPlane(t, "--service-account-max-token-expiration=1h", "--audit-policy-file="+policy,
		"--audit-log-path="+l.audit)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	a, err := Open(ctx, Config{Kubeconfig: l.kubeconfig})
	l.must(err)
	l.join(ctx, a)

	copies := []string{l.token()}
	program := l.as(rest.Config{BearerTokenFile: filepath.Join(l.root, flannelToken)})
	if have := l.credential(ctx, program); have != credentialOf(t, copies[0]) {
		t.Fatalf("the program begins with %s", have)
	}
	stop := l.serve(ctx)
	for range 3 {
		l.ahead.Store(int64(45 * time.Minute))
		l.until(time.Minute, "the token is renewed", func(context.Context) error {
			if l.token() == copies[len(copies)-1] {
				return errors.New("it is the same")
			}
			return nil
		})
		l.ahead.Store(0)
		copies = append(copies, l.token())
		l.must(patchStatus(ctx, l.as(rest.Config{BearerToken: l.token()}), testNode))
	}
	last, err := kube.ParseToken(copies[3])
	if err != nil || last.Ends.Sub(last.Issued) != time.Hour || last.BoundName != testNode {
		t.Errorf("%+v, %v", last, err)
	}
	l.until(2*time.Minute, "the program uses the new token", func(ctx context.Context) error {
		l.must(patchStatus(ctx, program, testNode))
		if have := l.credential(ctx, program); have != credentialOf(t, copies[3]) {
			return fmt.Errorf("it uses %s", have)
		}
		return nil
	})
	if renewed, refused := l.audited(); renewed != 3 || refused != 0 {
		t.Errorf("the API server answered %d renewals with 201, and %d requests with 401", renewed, refused)
	}

	l.must(a.DeleteNode(ctx, testNode, last.BoundUID))
	for _, token := range copies {
		l.unauthorized(token, "a copy of a token whose Node is gone")
	}
	l.ahead.Store(int64(45 * time.Minute))
	l.until(time.Minute, "the service reports that it cannot renew the token", func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if log := strings.Join(l.log, "\n"); !strings.Contains(log, "401 Unauthorized") {
			return errors.New(log)
		}
		return nil
	})
	stop()
}

// join makes the Node and its account, and gives the machine what an apply leaves there.
func (l *lives) join(ctx context.Context, a kube.API) {
	l.t.Helper()
	n, err := l.admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: testNode}},
		metav1.CreateOptions{})
	l.must(err)
	const namespace, account = "kube-system", "nodejoin-flannel"
	l.run(ctx, a, "account", &kinds.ServiceAccount{Namespace: namespace, Name: account, ClusterRole: "nodejoin:flannel",
		Rules:   []kube.Rule{{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}}},
		OwnNode: true})
	token := l.run(ctx, a, "token", &kinds.ServiceAccountToken{Namespace: namespace, Name: account, TTL: "24h"})["token"]
	l.host, err = sandbox.Open(ctx, sandbox.Config{Path: l.root, OS: "linux"})
	l.must(err)
	file := &kinds.TokenFile{Path: flannelToken, Token: token, Account: namespace + "/" + account,
		NodeUID: string(n.UID), Kubeconfig: "/etc/kubernetes/flannel.conf"}
	spec := func(id, kind string, args any) steps.Spec {
		return steps.Spec{ID: id, Kind: kind, Args: steps.MustArgs(args), Timeout: time.Minute}
	}
	made := []steps.Spec{spec("file", "token_file", file), spec("conf", "kubeconfig", &kinds.Kubeconfig{
		Path: file.Kubeconfig, Server: l.url, CA: string(certPEM(l.ca.Raw)), User: "flanneld", TokenFile: file.Path})}
	file.Token = ""
	plan := steps.BootPlan{Node: testNode, Guard: &steps.Guard{Interval: 100 * time.Millisecond},
		Tokens: []steps.Spec{spec("file", "token_file", file)}}
	made = append(made, spec("plan", "file", &kinds.File{Path: nodeFile, Content: plan.Text(),
		Access: host.AccessPrivate}))
	x := executor.NewExecutor(kinds.Catalog(), l.host, nil, func(event.Event) {})
	reply, err := x.Apply(ctx, executor.Request{Node: testNode, Steps: made})
	l.must(err)
	if reply.Err != nil {
		l.t.Fatal(reply.Err)
	}
}

// serve runs the service nodejoin-node of the machine until the returned function is called.
func (l *lives) serve(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- node.Run(ctx, node.Options{Host: l.host, Path: nodeFile, LockDir: l.t.TempDir(), Checks: []node.Check{},
			Tokens: nodeapi.Client{}, Clock: func() time.Time { return time.Now().Add(time.Duration(l.ahead.Load())) },
			Report: func(node.Level, string) {},
			Log: func(line string) {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.log = append(l.log, line)
			}})
	}()
	return func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			l.t.Error(err)
		}
	}
}

// token is the one in the machine's file.
func (l *lives) token() string {
	l.t.Helper()
	b, err := os.ReadFile(filepath.Join(l.root, flannelToken))
	l.must(err)
	return string(b)
}

// credential names the token with which a program is authenticated.
func (l *lives) credential(ctx context.Context, c *kubernetes.Clientset) string {
	l.t.Helper()
	r, err := c.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	l.must(err)
	return strings.Join(r.Status.UserInfo.Extra["authentication.kubernetes.io/credential-id"], ",")
}

func credentialOf(t *testing.T, token string) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	var claims struct{ JTI string }
	if err = errors.Join(err, json.Unmarshal(b, &claims)); err != nil || claims.JTI == "" {
		t.Fatalf("%s, %v", b, err)
	}
	return "JTI=" + claims.JTI
}

// audited counts, in the audit log, the tokens that the account got for itself, and the answers 401.
func (l *lives) audited() (renewed, refused int) {
	l.t.Helper()
	b, err := os.ReadFile(l.audit)
	l.must(err)
	for line := range strings.Lines(string(b)) {
		var e struct {
			Stage          string
			User           struct{ Username string }
			ObjectRef      struct{ Subresource string }
			ResponseStatus struct{ Code int }
		}
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		l.must(json.Unmarshal([]byte(line), &e))
		switch {
		case e.Stage != "ResponseComplete":
		case e.ResponseStatus.Code == http.StatusUnauthorized:
			refused++
		case e.User.Username == "system:serviceaccount:kube-system:nodejoin-flannel" && e.ObjectRef.Subresource == "token" &&
			e.ResponseStatus.Code == http.StatusCreated:
			renewed++
		}
	}
	return renewed, refused
}
