package acceptance_test

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"nodejoin/examples/acceptance/internal/mirror"
)

// examplePlan is the plan that all tests apply, below the root of the repository.
var examplePlan = filepath.Join("examples", "windows-ssh")

// anyDisk lets the kubelet of the example plan take pods on a disk that is nearly full: by its defaults it reports
// disk pressure where less than 15 percent are free, and the disk is that of whoever runs the tests.
const anyDisk = `$0
  kubelet {
    config = { evictionHard = { "nodefs.available" = "1Mi" } }
  }`

var profileOS = regexp.MustCompile(`(?m)^  os     = "windows"$`)

// exampleText returns the text of the example plan, with anyDisk.
func exampleText(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository(t), examplePlan, "windows-ssh.join.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(profileOS.FindAll(text, -1)) != 1 {
		t.Fatalf("%s does not have exactly one profile for Windows", examplePlan)
	}
	return profileOS.ReplaceAll(text, []byte(anyDisk))
}

// variables are the values of the example plan.
type variables struct {
	APIServer  string            `json:"api_server"`
	CAHash     string            `json:"ca_hash,omitempty"`
	Kubeconfig string            `json:"kubeconfig"`
	Hosts      map[string]string `json:"hosts"`
	Mirror     string            `json:"mirror"`
	SHA256     map[string]string `json:"sha256"`
	User       string            `json:"user"`
	Port       int               `json:"port"`
	Identity   []string          `json:"identity"`
	KnownHosts []string          `json:"known_hosts"`
}

// variables returns the variables for the machine of the bed, reached through a port of this machine (the
// machine's own, or that of a proxy).
func (b *bed) variables(port int) variables {
	b.t.Helper()
	dir, artifacts, err := mirror.Make(b.t.Context(), componentSet(b.t), "windows")
	if err == nil && port != b.host.Port() {
		// The plan admits the other port, and that of sshd where it is known which process listens: not under Wine
		// (TestListenerHasItsProcess of steps/host/windows).
		err = b.host.AdmitSSH(b.t.Context())
	}
	if err != nil {
		b.t.Fatal(err)
	}
	v := variables{
		APIServer: cmp.Or(b.apiServer, b.cluster.URL), CAHash: b.cluster.CAHash, Kubeconfig: b.cluster.Kubeconfig,
		Hosts:  map[string]string{nodeName: "127.0.0.1"},
		Mirror: dir, SHA256: map[string]string{}, User: b.host.User, Port: port,
		Identity: []string{b.host.Identity}, KnownHosts: []string{filepath.Join(b.dir, "known_hosts")},
	}
	for name, a := range artifacts {
		v.SHA256[name] = a.SHA256
	}
	if err := os.WriteFile(v.KnownHosts[0], []byte(b.host.KnownHosts(port)), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return v
}

// write writes the variables to a new file and returns the arguments of nodejoin that name it and the plan.
func (v variables) write(t *testing.T) []string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bed.joinvars.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--var-file", file, planWith(t)}
}

// with is like write, for another plan.
func (v variables) with(t *testing.T, plan string) []string {
	t.Helper()
	return append(v.write(t)[:2:2], plan)
}

var sshBlock = regexp.MustCompile(`(?s)connection "ssh" \{.*?\n  \}`)

// localPlan returns the text of the example plan with connection "local".
func localPlan(t *testing.T) string {
	t.Helper()
	text := exampleText(t)
	if len(sshBlock.FindAll(text, -1)) != 1 {
		t.Fatalf("%s does not have exactly one connection block", examplePlan)
	}
	return string(sshBlock.ReplaceAll(text, []byte(`connection "local" {}`)))
}
