package acceptance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"nodejoin/examples/acceptance/internal/controlplane"
)

// followers are simulated machines with Nodes in a real cluster. They follow a plan: each of their rounds is the
// process that nodejoin-node starts, with the account, keys and login of its machine.
type followers struct {
	*hollow
	cluster *controlplane.Cluster
	server  *releaseServer
	dir     string // of the machines; the file of each one's rounds is beside it
	names   []string

	counting sync.Mutex
	starts   map[string]int // of a machine's kubelet
}

func startFollowers(ctx context.Context, t *testing.T) *followers {
	t.Helper()
	c := startClusterWith(ctx, t, controlplane.Options{NodeGrace: time.Hour})
	f := &followers{hollow: &hollow{t: t, api: c.Client, mirror: fmt.Sprintf("path = %q", standIns(t)),
		out: map[string]bool{}, ready: map[string]bool{}}, cluster: c, dir: t.TempDir(), starts: map[string]int{}}
	for i := range followerCount {
		f.names = append(f.names, fmt.Sprintf("box-%02d", i+1))
	}
	f.watch(ctx)
	f.kubelets(ctx)
	f.server = &releaseServer{publisher: &publisher{t: t, cluster: c, keys: t.TempDir(), dir: t.TempDir()},
		ca: newRegistryCA(t)}
	for _, key := range []string{"user", "host"} {
		out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
			filepath.Join(f.server.keys, key)).CombinedOutput()
		if err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
	}
	f.server.ca.sign("server", false)
	f.server.serve(f.server.ca.listen)
	t.Cleanup(func() { f.server.stop() })
	return f
}

// inside is where a path of a machine is here.
func (f *followers) inside(name, path string) string { return filepath.Join(f.dir, name, path) }

// rounds is the file of a machine's rounds.
func (f *followers) rounds(name string) string { return filepath.Join(f.dir, name+".follow.json") }

// settle makes of the file that the plan gave each machine one with the places of the machine's files here.
func (f *followers) settle() {
	f.t.Helper()
	for _, name := range f.names {
		var file map[string]any
		f.readJSON(f.inside(name, followFile), &file)
		delete(file, "managed") // the file of the plan is another one
		access, err := clientcmd.LoadFromFile(f.inside(name, file["kubeconfig"].(string)))
		if err != nil {
			f.t.Fatal(err)
		}
		for _, u := range access.AuthInfos {
			u.TokenFile = f.inside(name, u.TokenFile)
		}
		file["kubeconfig"] = filepath.Join(f.dir, name+".conf")
		file["signers"] = f.inside(name, file["signers"].(string))
		text, err := json.Marshal(file)
		if err := errors.Join(err, clientcmd.WriteToFile(*access, file["kubeconfig"].(string)),
			os.WriteFile(f.rounds(name), text, 0o600)); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *followers) readJSON(file string, to any) {
	f.t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		f.t.Fatalf("%s: %v", file, err)
	}
}

// runs runs nodejoin as often as there are homes, all at the same time, each with arguments and a home of its own. All
// must end with an exit code.
func (f *followers) runs(ctx context.Context, what string, code int, args map[string][]string) {
	f.t.Helper()
	own, began := released(f.t), time.Now()
	env := append(environment(f.t), "SSL_CERT_FILE="+f.server.ca.file("ca.pem"), "SSL_CERT_DIR=/dev/null")
	var mu sync.Mutex
	var used time.Duration
	var most int64
	var all sync.WaitGroup
	for home, args := range args {
		all.Go(func() {
			cmd := own.command(ctx, f.t, args...)
			cmd.Dir, cmd.Env = f.dir, append(slices.Clone(env), "HOME="+filepath.Join(f.dir, home+".home"))
			out, err := cmd.CombinedOutput()
			mu.Lock()
			defer mu.Unlock()
			noSecret(f.t, what, out)
			if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
				f.t.Errorf("%s of %s: %v, want exit code %d\n%s", what, home, err, code, tail(string(out)))
				return
			}
			used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			most = max(most, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
		})
	}
	all.Wait()
	f.t.Logf("%s: %d processes, %.1fs, %.1fs of processor time, at most %d MB of memory each", what, len(args),
		time.Since(began).Seconds(), used.Seconds(), most>>10)
	if f.t.Failed() {
		f.t.FailNow()
	}
}

// join joins all machines, by some runs at once: each sends the API server 20 requests a second at most.
func (f *followers) join(ctx context.Context, args []string) {
	f.t.Helper()
	const shards = 8
	runs := map[string][]string{}
	for i := range shards {
		runs[fmt.Sprint("controller-", i)] = append([]string{"apply", "--auto-approve", "--display", "plain", "--shard",
			fmt.Sprintf("%d/%d", i+1, shards)}, args...)
	}
	f.runs(ctx, "join", 0, runs)
}

// round has all machines make a round.
func (f *followers) round(ctx context.Context, what string, code int) {
	f.t.Helper()
	runs := map[string][]string{}
	for _, name := range f.names {
		runs[name] = []string{"follow", f.rounds(name)}
	}
	f.runs(ctx, what, code, runs)
}

// nodes are the Nodes of the machines.
func (f *followers) nodes(ctx context.Context) []corev1.Node {
	f.t.Helper()
	list, err := f.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: hollowLabel})
	if err != nil || len(list.Items) != len(f.names) {
		f.t.Fatalf("%d Nodes, %v", len(list.Items), err)
	}
	return list.Items
}

// kubelets does what the kubelets of the machines do, until the test ends: one that was started reports that its Node
// is ready.
func (f *followers) kubelets(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		seen, process := map[string]time.Time{}, map[string]int{}
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			for _, name := range f.names {
				now, changed, err := f.kubelet(name, seen)
				if err == nil && changed && now != 0 && now != process[name] {
					f.counting.Lock()
					f.starts[name]++
					f.counting.Unlock()
					err = f.report(ctx, name, corev1.ConditionTrue)
				}
				if err != nil && ctx.Err() == nil {
					f.t.Errorf("the kubelet of %s: %v", name, err)
				}
				if changed {
					process[name] = now
				}
			}
		}
	}()
	f.t.Cleanup(func() {
		stop()
		<-done
	})
}

// kubelet is the process of a machine's kubelet, 0 = it does not run. changed = the machine is not as it was seen.
func (f *followers) kubelet(name string, seen map[string]time.Time) (process int, changed bool, err error) {
	file := f.inside(name, ".sandbox/state.json")
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil || info.ModTime().Equal(seen[name]) {
		return 0, false, err
	}
	seen[name] = info.ModTime()
	text, err := os.ReadFile(file)
	var machine struct {
		Services map[string]struct{ PID int }
	}
	if err == nil {
		err = json.Unmarshal(text, &machine)
	}
	return machine.Services["kubelet"].PID, true, err
}
