package acceptance_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nodejoin/examples/acceptance/internal/controlplane"
)

// rollouts is a fleet of hollow hosts: they join by a Job of several shards, change by another within a budget, and by
// a shell loop over --shard. Pods and runs are killed meanwhile.
type rollouts struct {
	*hollow
	bed    *linuxBed // its Node runs the pods
	shards int
	away   int // how many Nodes may be out of service
	every  time.Duration
}

// TestFleetOfThousand is the rollout of as many hosts as NODEJOIN_FLEET_HOSTS says. Otherwise it is skipped, as it
// takes long.
func TestFleetOfThousand(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("NODEJOIN_FLEET_HOSTS"))
	if err != nil {
		t.Skip("NODEJOIN_FLEET_HOSTS does not say how many hosts")
	}
	ctx, cancel := bounded(t, 3*time.Hour)
	defer cancel()
	b := newFleetBed(ctx, t)
	r := &rollouts{hollow: startHollow(ctx, t, b.cluster, b.machine.Gateway(), n, 0), bed: b, shards: 8, away: 16,
		every: time.Minute}
	r.run(ctx)
}

// newFleetBed is a cluster with a Node that runs pods of nodejoin.
func newFleetBed(ctx context.Context, t *testing.T) *linuxBed {
	t.Helper()
	b := newLinuxBedWith(ctx, t, false, controlplane.Options{NodeGrace: 24 * time.Hour})
	mustApply(ctx, t, writePlan(t, b.head(), b.linuxHost()))
	importImages(ctx, t, b.machine)
	b.importNodejoin(ctx)
	if err := b.cluster.StartScheduler(); err != nil {
		t.Fatal(err)
	}
	startDNS(ctx, t, b.cluster, b.machine.Gateway())
	b.serveAPI(ctx)
	return b
}

func (r *rollouts) run(ctx context.Context) {
	r.t.Helper()
	r.job(ctx, "join", 100)
	r.wantOnce("join")
	r.job(ctx, "rollout", 101)
	r.wantOnce("rollout")
	r.wantBudget("rollout")
	r.loop(ctx, 102)
	r.wantOnce("loop")
	r.wantBudget("loop")
}

// job runs a Job over all hosts, and kills a pod from time to time.
func (r *rollouts) job(ctx context.Context, name string, pods int) {
	r.t.Helper()
	r.begin()
	plan, home := r.plan(r.bed.cluster, len(r.hosts.Hosts), pods, r.away), r.home()
	args := []string{"--kubeconfig", r.bed.cluster.Kubeconfig, "--namespace", "fleets", "--name", name}
	began := time.Now()
	r.bed.fleet(ctx, append([]string{"apply", plan, "--auto-approve", "--image", fleetImage, "--shards",
		strconv.Itoa(r.shards), "--retries", "100", "--ssh-key", filepath.Join(home, ".ssh", "id_ed25519"),
		"--known-hosts", filepath.Join(home, ".ssh", "known_hosts")}, args...)...)
	killing, stop := context.WithCancel(ctx)
	killed := make(chan int)
	go func() { killed <- r.kill(killing, r.api) }()
	var report fleetReport
	for report = r.bed.fleetStatus(ctx, append([]string{"status", "--json"}, args...)); !report.Job.Complete &&
		report.Job.Failed == "" && ctx.Err() == nil; {
		time.Sleep(3 * time.Second) // between two looks
		report = r.bed.fleetStatus(ctx, append([]string{"status", "--json"}, args...))
	}
	stop()
	most, taken := r.atOnce()
	again := 0
	for _, s := range report.Shards {
		again += s.Retried
	}
	r.t.Logf("%s: %d hosts, %d shards, %.0fs, %d pods killed, shards started %d times again, %d Nodes out of service "+
		"at once at most (%d times one)", name, len(r.hosts.Hosts), r.shards, time.Since(began).Seconds(), <-killed,
		again, most, taken)
	failed := 0
	for _, h := range report.Hosts {
		if h.Error != nil {
			failed++
			r.t.Logf("%s: %v", h.Node, h.Error)
		}
	}
	if !report.Job.Complete || len(report.Shards) != r.shards || len(report.Hosts) != len(r.hosts.Hosts) || failed > 0 {
		r.t.Fatalf("%s: the report has %d shards, %d hosts, %d failed: %+v\n%s", name, len(report.Shards),
			len(report.Hosts), failed, report.Job, tail(r.bed.fleet(ctx, append([]string{"logs"}, args...)...)))
	}
}

// kill kills the pods of a fleet that run, two at most, again and again, until ctx ends. It kills both at once, as
// what a pod does in half a minute may be the check of its hosts: a shard that came no further would be killed until
// the Job controller, which waits twice as long with each pod that a shard has lost, did nothing but wait.
func (r *rollouts) kill(ctx context.Context, api kubernetes.Interface) (killed int) {
	for {
		select {
		case <-ctx.Done():
			return killed
		case <-time.After(r.every): // two a minute
		}
		list, err := api.CoreV1().Pods("fleets").List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		running := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
		for _, p := range running[:min(len(running), 2)] {
			now := int64(0) // SIGKILL
			err := api.CoreV1().Pods("fleets").Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
			if err == nil {
				killed++
			} else if !apierrors.IsNotFound(err) && ctx.Err() == nil {
				r.t.Errorf("killing %s: %v", p.Name, err)
			}
		}
	}
}

// loop does what a shell loop over --shard does, two shards at once, and kills runs: the next of the shard goes on.
func (r *rollouts) loop(ctx context.Context, pods int) {
	r.t.Helper()
	r.begin()
	dir, home := r.plan(r.bed.cluster, len(r.hosts.Hosts), pods, r.away), r.home()
	shards := make(chan int, r.shards)
	for i := range r.shards {
		shards <- i + 1
	}
	close(shards)
	began := time.Now()
	var mu sync.Mutex
	killed, waited := 0, 0
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for i := range shards {
				for try := 0; ; try++ {
					// The first run of each second shard is killed in the middle.
					code, said := r.shard(ctx, dir, home, i, try == 0 && i%2 == 1)
					mu.Lock()
					if code == -1 {
						killed++
					}
					if strings.Contains(said, "all slots of the rollout are taken") {
						waited++
					}
					mu.Unlock()
					if code == 0 {
						break
					}
					// 7: the Lease of the run that was killed has not ended.
					if ctx.Err() != nil || code != -1 && code != 7 {
						r.t.Errorf("shard %d: exit code %d\n%s", i, code, tail(said))
						break
					}
				}
			}
		})
	}
	all.Wait()
	most, taken := r.atOnce()
	r.t.Logf("loop: %d hosts, %d shards, %.0fs, %d runs killed, %d Nodes out of service at once at most (%d times one)",
		len(r.hosts.Hosts), r.shards, time.Since(began).Seconds(), killed, most, taken)
	if killed == 0 {
		r.t.Error("no run was killed")
	}
}

// shard applies one shard; -1 = it was killed.
func (r *rollouts) shard(ctx context.Context, dir, home string, i int, kill bool) (code int, said string) {
	cmd := exec.CommandContext(ctx, string(released(r.t)), "apply", dir, "--auto-approve", "--display", "plain",
		"--shard", fmt.Sprintf("%d/%d", i, r.shards), "--parallel", "4")
	cmd.Dir, cmd.Env = repository(r.t), append(environment(r.t), "HOME="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_, before := r.atOnce()
	if err := cmd.Start(); err != nil {
		r.t.Error(err)
		return 1, ""
	}
	ended := make(chan struct{})
	if kill {
		go func() {
			for {
				select {
				case <-ended:
					return
				case <-time.After(20 * time.Millisecond): // between two looks
				}
				if _, taken := r.atOnce(); taken > before { // a Node is out of service
					_ = cmd.Process.Kill()
					return
				}
			}
		}()
	}
	_ = cmd.Wait() // the exit code says it
	close(ended)
	return cmd.ProcessState.ExitCode(), out.String()
}

// wantOnce: each host was changed, and each of its changes was made once; a run that was killed may have left one
// undone that the next one makes again.
func (r *rollouts) wantOnce(part string) {
	r.t.Helper()
	made := r.made()
	var counts []int
	again, hosts := map[string]int{}, 0
	for _, h := range r.hosts.Hosts {
		total, twice := 0, false
		for call, n := range made[h.Name] {
			total += n
			if n > 1 {
				again[call]++
				twice = true
			}
		}
		if twice {
			hosts++
		}
		counts = append(counts, total)
	}
	slices.Sort(counts)
	r.t.Logf("%s: mutating calls of a host, own count: %d to %d, mostly %d; %d hosts made a call again: %v", part,
		counts[0], counts[len(counts)-1], counts[len(counts)/2], hosts, again)
	if counts[0] == 0 {
		r.t.Errorf("%s: a host was not changed", part)
	}
}

// wantBudget: no more Nodes were out of service at once than the plan allows, and each was.
func (r *rollouts) wantBudget(part string) {
	r.t.Helper()
	if most, taken := r.atOnce(); most > r.away || taken < len(r.hosts.Hosts) {
		r.t.Errorf("%s: %d Nodes were out of service at once, of %d allowed; %d times one was taken out, of %d hosts", part,
			most, r.away, taken, len(r.hosts.Hosts))
	}
}
