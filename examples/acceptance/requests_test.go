package acceptance_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nodejoin/examples/acceptance/internal/controlplane"
)

const (
	ofRun    = 50 // requests of a run that changes nothing, besides those that grow with its hosts
	fewNodes = 8  // that a run reads before it lists and watches all (steps/cluster/nodes.go)
)

// notOK matches the lines of steps that were done.
var notOK = regexp.MustCompile(`(?m)^\S+: ok .*\n`)

// TestRequestsOfManyHosts: a run over many hosts sends few requests to the API server, by its own audit log: a check
// lists and watches the Nodes of all of them, a join and a repair send some for each host, and none more than 20 a
// second. NODEJOIN_REQUEST_HOSTS says how many hosts.
func TestRequestsOfManyHosts(t *testing.T) {
	hosts := 40
	if n := os.Getenv("NODEJOIN_REQUEST_HOSTS"); n != "" {
		var err error
		if hosts, err = strconv.Atoi(n); err != nil || hosts < 1 {
			t.Fatalf("NODEJOIN_REQUEST_HOSTS is %q", n)
		}
	}
	ctx, cancel := bounded(t, 10*time.Minute+time.Duration(hosts)*2*time.Second)
	defer cancel()
	c := startClusterWith(ctx, t, controlplane.Options{Audit: true, NodeGrace: time.Hour})
	h := startHollow(ctx, t, c, "127.0.0.1", hosts, 0)
	dir, home := h.plan(c, hosts, 100, hosts), h.home()
	for _, run := range []struct {
		name string
		args []string
		most int // requests
		code int
	}{
		{"join", []string{"apply", dir, "--auto-approve", "--display", "plain"}, 2*ofRun + 20*hosts, 0},
		{"no changes", []string{"apply", dir, "--auto-approve", "--display", "plain"}, ofRun + hosts, 0},
		{"plan", []string{"plan", dir}, ofRun + hosts, 0},
		{"status", []string{"status", dir}, ofRun + hosts, 0},
		{"drift", []string{"status", dir, "--detailed-exitcode"}, ofRun + hosts, 2},
		{"repair", []string{"apply", dir, "--auto-approve", "--display", "plain"}, 2*ofRun + 3*hosts, 0},
		{"change of a shard", []string{"apply", dir, "--shard", "1/1", "--auto-approve", "--display", "plain"},
			2*ofRun + 14*hosts, 0},
	} {
		if run.name == "change of a shard" {
			run.args[1] = h.plan(c, hosts, 101, 16)
		}
		if run.name == "drift" {
			for _, host := range h.hosts.Hosts {
				h.alter(host.Name, "etc/containerd/config.toml")
			}
		}
		before := len(requestsOfNodejoin(t, c))
		cmd := released(t).command(ctx, t, run.args...)
		cmd.Env = append(cmd.Env, "HOME="+home)
		if out, err := cmd.CombinedOutput(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != run.code {
			t.Fatalf("%s: %v\n%s", run.name, err, tail(notOK.ReplaceAllString(string(out), "")))
		}
		list := requestsOfNodejoin(t, c)[before:]
		kinds := map[string]int{}
		for _, e := range list {
			kinds[strings.TrimSuffix(e.Verb+" "+e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/")]++
		}
		if len(list) == 0 {
			t.Fatalf("%s: no request was logged", run.name)
		}
		took := list[len(list)-1].RequestReceivedTimestamp.Sub(list[0].RequestReceivedTimestamp)
		var all []string
		for _, kind := range slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
			return kinds[b] - kinds[a]
		}) {
			all = append(all, fmt.Sprintf("%d %s", kinds[kind], kind))
		}
		t.Logf("%s: %d hosts, %d requests in %.1fs: %s", run.name, hosts, len(list), took.Seconds(), strings.Join(all, ", "))
		if len(list) > run.most {
			t.Errorf("%s: %d requests, more than %d", run.name, len(list), run.most)
		}
		if n := kinds["get nodes"]; run.most == ofRun+hosts && n > fewNodes {
			t.Errorf("%s: %d Nodes were read one by one", run.name, n)
		}
		// 20 in any second; those of the first and the last one may have arrived late.
		if most := 20 * (took/time.Second + 2); len(list) > int(most) {
			t.Errorf("%s: %d requests in %v, more than 20 a second", run.name, len(list), took)
		}
	}
}

// requestsOfNodejoin are those that the API server has answered so far, in the order in which they came; a watch is
// one.
func requestsOfNodejoin(t *testing.T, c *controlplane.Cluster) []controlplane.AuditEvent {
	t.Helper()
	all, err := c.Audited()
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(e controlplane.AuditEvent) bool {
		return e.UserAgent != "nodejoin" || e.Verb == "watch" && e.Stage != "ResponseStarted"
	})
	slices.SortStableFunc(all, func(a, b controlplane.AuditEvent) int {
		return a.RequestReceivedTimestamp.Compare(b.RequestReceivedTimestamp)
	})
	return all
}
