package firstboot

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
)

// machine is the folder of a first boot, whose bundle is a file.
type machine struct {
	*Run
	t    *testing.T
	file File
	said []string
	kube string // that the join of the plan writes; "" = an apply reads no plan
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	bundle := filepath.Join(dir, "site.tar")
	if err := os.WriteFile(bundle, []byte("bundle"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum, err := digest(bundle)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"} {
		t.Setenv(name, os.Getenv(name)) // restored
	}
	m := &machine{t: t, file: File{Version: 1, Node: "n", Expires: time.Now().Add(time.Hour),
		Bundle: Fetched{bundle, sum},
		Values: map[string]string{"b": "2", "a": "1"}, Environment: "prod", Token: "abcdef.0123456789abcdef", Account: "x"}}
	m.Run = &Run{Path: filepath.Join(dir, "join.json"), Say: func(s string) { m.said = append(m.said, s) }}
	return m
}

// boot runs the first boot; each apply gives the next outcome.
func (m *machine) boot(outcomes ...Outcome) (calls [][]string, code int, err error) {
	m.t.Helper()
	b, err := m.file.text()
	if err == nil {
		err = os.WriteFile(m.Path, b, 0o600)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.Apply = func(_ context.Context, args []string) (int, Outcome) {
		calls = append(calls, args)
		if m.kube != "" {
			if err := m.Prepare(m.t.Context(), planWith(m.kube, "ssh")); err != nil {
				m.t.Error(err)
			}
		}
		o := outcomes[min(len(calls), len(outcomes))-1]
		return map[Outcome]int{Finished: 0, Failed: 1, Waiting: 4, Rebooting: 6}[o], o
	}
	code, err = m.Do(m.t.Context())
	return calls, code, err
}

// wantClean checks whether the machine has anything of the first boot.
func (m *machine) wantClean(clean bool) {
	m.t.Helper()
	for _, name := range []string{m.Path, m.work()} {
		if _, err := os.Stat(name); os.IsNotExist(err) != clean {
			m.t.Errorf("%s: %v, want gone: %v", name, err, clean)
		}
	}
}

// TestBoot: the apply of a first boot has what the plan needs, and nothing is left of it.
func TestBoot(t *testing.T) {
	m := newMachine(t)
	calls, code, err := m.boot(Finished)
	want := []string{"apply", "--auto-approve", "--display", "plain", "--env", "prod", "--var", "a=1", "--var", "b=2",
		filepath.Join(m.work(), "bundle.tar")}
	if err != nil || code != 0 || len(calls) != 1 || !slices.Equal(calls[0], want) {
		t.Errorf("%v, code %d: %q", err, code, calls)
	}
	m.wantClean(true)
}

// planWith is a plan whose join writes a kubeconfig.
func planWith(kubeconfig, connection string) *plan.Compiled {
	return &plan.Compiled{Nodes: []plan.Node{{Name: "n", Connection: plan.Connection{Type: connection},
		Steps: []steps.Spec{{ID: "b", Kind: "kubeconfig", Args: steps.MustArgs(&kinds.Kubeconfig{Path: kubeconfig,
			Token: steps.Ref("join_token.token")})}}}}}
}

// TestBootFails: a failure leaves no secret either, nor a kubeconfig that the join wrote and did not remove. That of a
// sandbox is not on this machine.
func TestBootFails(t *testing.T) {
	m := newMachine(t)
	here, there := filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "there")
	for path, connection := range map[string]string{here: "ssh", there: "sandbox"} {
		if err := os.WriteFile(path, []byte("key"), 0o600); err != nil {
			t.Fatal(err)
		}
		m.Run.file = &m.file
		if err := m.Prepare(t.Context(), planWith(path, connection)); err != nil {
			t.Fatal(err)
		}
	}
	calls, code, err := m.boot(Failed)
	if err != nil || code != 1 || len(calls) != 1 {
		t.Errorf("%v, code %d, %d calls", err, code, len(calls))
	}
	m.wantClean(true)
	_, errHere := os.Stat(here)
	if _, err := os.Stat(there); err != nil || !os.IsNotExist(errHere) {
		t.Errorf("the kubeconfig here: %v, that of the sandbox: %v", errHere, err)
	}
}

// TestBootReboots: what is needed after a boot stays until then, and the bundle is not fetched again.
func TestBootReboots(t *testing.T) {
	m := newMachine(t)
	if _, code, err := m.boot(Rebooting); err != nil || code != 6 {
		t.Errorf("%v, code %d", err, code)
	}
	m.wantClean(false)
	if err := os.Remove(m.file.Bundle.From); err != nil {
		t.Fatal(err)
	}
	if _, code, err := m.boot(Finished); err != nil || code != 0 {
		t.Errorf("%v, code %d", err, code)
	}
	m.wantClean(true)

	// Nobody applies while it is not known what there is to remove.
	if err := errors.Join(os.MkdirAll(m.work(), 0o700), os.WriteFile(m.note(), []byte("["), 0o600)); err != nil {
		t.Fatal(err)
	}
	if calls, _, err := m.boot(Finished); err == nil || len(calls) != 0 {
		t.Errorf("a note that is cut: %v, %d calls", err, len(calls))
	}
	m.wantClean(true)

	// Nor is its folder left where the file cannot be read either.
	if err := errors.Join(os.MkdirAll(m.work(), 0o700), os.WriteFile(m.note(), []byte("["), 0o600)); err != nil {
		t.Fatal(err)
	}
	m.file.Token = ""
	if calls, _, err := m.boot(Finished); err == nil || len(calls) != 0 {
		t.Errorf("a note that is cut, and no token: %v, %d calls", err, len(calls))
	}
	if _, err := os.Stat(m.work()); !os.IsNotExist(err) {
		t.Errorf("%s is left (%v)", m.work(), err)
	}

	// What fails after a boot removes what the join wrote before it, even if the plan is not read again.
	for name, end := range map[string]func(f *File){
		"the access has ended": func(f *File) { f.Expires = time.Now().Add(-time.Minute) },
		"no bundle":            func(f *File) { f.Bundle.SHA256 = strings.Repeat("0", 64) },
		"no token":             func(f *File) { f.Token = "" },
	} {
		t.Run(name, func(t *testing.T) {
			m = newMachine(t)
			m.kube = filepath.Join(t.TempDir(), "kubeconfig")
			if _, code, err := m.boot(Rebooting); err != nil || code != 6 {
				t.Errorf("%v, code %d", err, code)
			}
			if err := errors.Join(os.WriteFile(m.kube, []byte("key"), 0o600),
				os.Remove(filepath.Join(m.work(), "bundle.tar"))); err != nil {
				t.Fatal(err)
			}
			m.Run = &Run{Path: m.Path, Say: m.Say} // another process
			end(&m.file)
			if calls, _, err := m.boot(Finished); err == nil || len(calls) != 0 {
				t.Errorf("%v, %d calls", err, len(calls))
			}
			for _, path := range []string{m.kube, m.work()} {
				if _, err := os.Stat(path); !os.IsNotExist(err) {
					t.Errorf("%s is left (%v)", path, err)
				}
			}
		})
	}
}

// TestBootWaits: while the cluster does not answer it tries again, but not after its access has ended.
func TestBootWaits(t *testing.T) {
	m := newMachine(t)
	synctest.Test(t, func(t *testing.T) {
		m.t = t
		m.file.Expires = time.Now().Add(time.Hour)
		calls, code, err := m.boot(Waiting, Waiting, Finished)
		if err != nil || code != 0 || len(calls) != 3 || len(m.said) != 3 {
			t.Errorf("%v, code %d, %d calls: %q", err, code, len(calls), m.said)
		}
		m.wantClean(true)
		m.file.Expires = time.Now().Add(50 * time.Second)
		calls, _, err = m.boot(Waiting)
		if err == nil || !strings.Contains(err.Error(), "the access to the cluster has ended") || len(calls) != 4 {
			t.Errorf("%v, %d calls", err, len(calls))
		}
		m.wantClean(true)
		m.file.Expires = time.Now().Add(-time.Minute)
		if calls, _, err = m.boot(Finished); err == nil || len(calls) != 0 {
			t.Errorf("%v, %d calls", err, len(calls))
		}
		m.wantClean(true)
	})
}

// TestBootFetches: another bundle than the user data was written for is not applied, wherever it comes from.
func TestBootFetches(t *testing.T) {
	m := newMachine(t)
	s := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(m.file.Bundle.From))))
	defer s.Close()
	m.file.Bundle.From = s.URL + "/site.tar"
	if calls, _, err := m.boot(Finished); err != nil || len(calls) != 1 {
		t.Errorf("%v, %d calls", err, len(calls))
	}
	m.file.Bundle.SHA256 = strings.Repeat("0", 64)
	calls, _, err := m.boot(Finished)
	if e := steps.AsError(err); err == nil || e.Code != steps.CodeDigest || len(calls) != 0 {
		t.Errorf("%v, %d calls", err, len(calls))
	}
	m.wantClean(true)
}

// TestOwn: a first boot leaves out what makes others trust the machine, what waits for that, and what nodes share.
// What came after these runs all the same.
func TestOwn(t *testing.T) {
	spec := func(id, kind string, args any, after ...string) steps.Spec {
		return steps.Spec{ID: id, Kind: kind, Title: id, Args: steps.MustArgs(args), After: after}
	}
	p := &plan.Compiled{Moved: map[string]string{"m": "n"}, Nodes: []plan.Node{{Name: "m"}, {Name: "n",
		Connection: plan.Connection{Type: "ssh", SSH: &plan.SSH{}}, Steps: []steps.Spec{
			spec("account", "service_account", &kinds.ServiceAccount{Namespace: "a", Name: "a", ClusterRole: "a"}),
			spec("request", "serving_certificate", &kinds.ServingCertificate{}),
			spec("certificate", "file_ready", &kinds.FileReady{Path: "/a"}, "request"),
			spec("other", "file_ready", &kinds.FileReady{Path: "/b"}, "account"),
			spec("joined", "node_joined", &kinds.NodeJoined{}, "certificate", "other")}}}}
	_, later := own(p.Nodes[1].Steps)
	if err := (&Run{file: &File{Node: "n"}}).Prepare(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	n := p.Nodes[0]
	if len(p.Nodes) != 1 || n.Name != "n" || !n.Partial || n.Connection.Type != "local" || n.Connection.SSH != nil ||
		p.Moved != nil {
		t.Errorf("the plan is %+v", p)
	}
	if len(n.Steps) != 2 || n.Steps[0].ID != "other" || len(n.Steps[0].After) != 0 ||
		!slices.Equal(n.Steps[1].After, []string{"other"}) {
		t.Errorf("the steps are %+v", n.Steps)
	}
	if len(later) != 2 || later[0].ID != "request" || later[1].ID != "certificate" {
		t.Errorf("left to the next apply: %+v", later)
	}
}

// TestAccess: the tokens of one node, which end together, and end those of an earlier grant.
func TestAccess(t *testing.T) {
	c, err := sandbox.OpenCluster(t.Context(), sandbox.ClusterConfig{Dir: t.TempDir(), Version: "v1.36.3"})
	if err != nil {
		t.Fatal(err)
	}
	p := &plan.Compiled{Cluster: &plan.Cluster{Sandbox: "x"}}
	n := plan.Node{Name: "n"}
	var first, second File
	for _, f := range []*File{&first, &second} {
		if err := f.give(t.Context(), c, p, n, 15*time.Minute); err != nil {
			t.Fatal(err)
		}
		if left := time.Until(f.Expires); left < 14*time.Minute || left > 15*time.Minute {
			t.Errorf("it lives for %v", left)
		}
	}
	have, err := c.BootstrapTokens(t.Context(), "n")
	if err != nil || len(have) != 1 || !strings.HasPrefix(second.Token, have[0].ID+".") || first.Token == second.Token {
		t.Errorf("%v: %+v, not that of %s", err, have, second.Token)
	}
	g := &guest{API: c, own: "n", token: second.bootstrap()}
	minted, err := g.MintToken(t.Context(), "n", time.Hour)
	if err != nil || minted.Text() != second.Token {
		t.Errorf("%v: it is not that of the user data", err)
	}
	cert, key := minted.Pair()
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil || pair.Leaf.Subject.CommonName != "system:node:n" || !pair.Leaf.NotAfter.Equal(second.Expires) {
		t.Errorf("%v: it is not a certificate of the Node: %+v", err, pair.Leaf)
	}
	if err := g.RevokeToken(t.Context(), minted.ID); err != nil {
		t.Fatal(err)
	}
	if have, err := g.BootstrapTokens(t.Context(), "n"); err != nil || len(have) != 0 {
		t.Errorf("the run still sees %+v, %v", have, err)
	}
	if have, err := c.BootstrapTokens(t.Context(), "n"); err != nil || len(have) != 1 {
		t.Errorf("its access has ended before the run: %+v, %v", have, err)
	}
	if err := g.end(t.Context()); err != nil {
		t.Fatal(err)
	}
	if have, err := c.BootstrapTokens(t.Context(), "n"); err != nil || len(have) != 0 {
		t.Errorf("%+v, %v", have, err)
	}
	g.token.Expires = time.Now().Add(-time.Second)
	if _, err := g.MintToken(t.Context(), "n", time.Hour); err == nil {
		t.Error("a token that has ended is given out")
	}
}
