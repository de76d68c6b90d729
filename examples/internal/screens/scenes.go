package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"nodejoin/steps/host/sandbox"
)

// scene is a command or two, and what they show.
type scene struct {
	name, title, about string
	play               func(context.Context, *world) []line
}

// scenes play one after the other in the same world: what one does, the next finds.
var scenes = []scene{
	{"first-plan", "The first plan",
		"Two new machines. Hosts with the same changes are shown once. Nothing is changed yet.", firstPlan},
	{"first-apply", "The first apply of 50 hosts",
		"The first node has joined by itself; now the other 49 do, ten at a time. " +
			"The upper part shows the run in the middle, the lower part its end.", firstApply},
	{"failure", "A host fails",
		"A service ends as soon as it starts. The other host is not affected; the next apply continues.", failure},
	{"drift", "Drift", "Somebody has edited a file and stopped a service.", drift},
	{"status", "Status", "A line for each node. `--only` leaves out those that are in order.", status},
	{"doctor", "Doctor", "What keeps a machine from being a node, the worst first, each with its remedy.", doctor},
	{"upgrade", "An upgrade", "Another version of Kubernetes in the plan: what interrupts comes first.", upgrade},
	{"lock-held", "The lock is held", "A second apply while another one is at work. It changes nothing.", lockHeld},
	{"interrupted", "Ctrl-C", "The run ends in order; the next apply continues.", interrupted},
	{"history", "History", "Each run with its plan, variables and result.", history},
	{"leave", "Leave", "A node is drained, deleted from the cluster, and its machine restored.", leave},
	{"host-down", "A host is down",
		"The host that answers is shown; the other one is named with its address.", hostDown},
}

func firstPlan(ctx context.Context, w *world) []line {
	t := w.open()
	w.run(ctx, t, 0, "plan", "prod")
	return t.lines()
}

const (
	fleetSize = 50
	before    = 14 // hosts that have ended in the middle of the run
	// A host that waits is one of those at work.
	loading, waiting = 6, 4
)

func win(i int) string { return fmt.Sprintf("win-%02d", i) }

func firstApply(ctx context.Context, w *world) []line {
	content, digest := archive(noise(2_000_000), "agent.exe")
	part := map[string]float64{}
	for i := range fleetSize {
		if i >= before && i < before+loading {
			part[win(i+1)] = float64(i-before+2) / 20
		}
		if i < before+loading || i >= before+loading+waiting {
			w.write("fleet/.sandbox/"+win(i+1)+"/C/inventory/done.txt", "done\n")
		}
	}
	var d *depot
	w.try(func() (err error) {
		d, err = openDepot(ctx, content, part)
		return err
	})
	if w.err != nil {
		return nil
	}
	defer func() { _ = d.Close() }()
	w.edit("fleet/fleet.join.hcl", `{ "win-1" = "192.0.2.11", "win-2" = "192.0.2.12" }`,
		fmt.Sprintf(`{ for i in range(%d) : format("win-%%02d", i + 1) => "192.0.2.${11 + i}" }`, fleetSize))
	w.write("fleet/tools.join.hcl", strings.NewReplacer("ADDRESS", d.address, "DIGEST", digest).Replace(`
# The company's monitoring agent, and its inventory, which other programs wait for.
step "archive" "monitoring" {
  on     = node.win
  url    = "http://ADDRESS/${self.name}/monitoring.tar.gz"
  sha256 = "DIGEST"
  to     = "C:\\monitoring"
  after  = ["kubelet"]
}
step "file_ready" "inventory" {
  on      = node.win
  path    = "C:\\inventory\\done.txt"
  timeout = "30m"
  after   = ["monitoring"]
}
`))
	w.quietly(ctx, "apply", "--auto-approve", "--target", win(1), "fleet")
	t := w.open()
	w.start(ctx, t, "apply", "--parallel", "10", "fleet")
	w.try(func() error { return t.until("to continue:") })
	w.head = t.lines()[:min(14, len(t.lines()))]
	w.try(func() error { return t.press("yes\n") })
	var patterns []string
	for i := before; i < before+loading; i++ {
		amount := ""
		if w.width > 60 {
			amount = `\d{3}\.\d kB/2\.0 MB .*`
		}
		patterns = append(patterns, fmt.Sprintf(`^%s +monitoring .*%s left$`, win(i+1), amount))
	}
	for i := before + loading; i < before+loading+waiting; i++ {
		patterns = append(patterns, fmt.Sprintf(`^%s +inventory .*\d+s$`, win(i+1)))
	}
	patterns = append(patterns, fmt.Sprintf(`^ended: %s to %s$`, win(1), win(before)))
	w.try(func() error { return t.until(patterns...) })
	frame := t.last()
	close(d.release)
	for i := before + loading; i < before+loading+waiting; i++ {
		w.write("fleet/.sandbox/"+win(i+1)+"/C/inventory/done.txt", "done\n")
	}
	w.try(func() error { return t.wait(0) })
	return slices.Concat(frame, []line{nil, {{"d", more}}, nil}, since(t.lines(), "HOST "))
}

// more stands for lines that a picture leaves out.
const more = "[...]"

// since are the lines from the first one that begins with a text.
func since(lines []line, prefix string) []line {
	for i, l := range lines {
		if strings.HasPrefix(l.String(), prefix) {
			return lines[i:]
		}
	}
	return lines
}

func failure(ctx context.Context, w *world) []line {
	w.quietly(ctx, "apply", "--auto-approve", "--target", "win-1", "prod")
	w.write("prod/.sandbox/win-2/.sandbox/broken.json", `{"kubelet.exe": "exit 1"}`)
	t := w.open()
	w.run(ctx, t, 1, "apply", "--auto-approve", "prod")
	w.write("prod/.sandbox/win-2/.sandbox/broken.json", "")
	w.quietly(ctx, "apply", "--auto-approve", "prod")
	return t.last()
}

func drift(ctx context.Context, w *world) []line {
	w.write("prod/.sandbox/win-1/C/k/README.txt", "edited by hand\n")
	w.try(func() error { return stop(ctx, filepath.Join(w.dir, "prod/.sandbox"), "win-2", "kube-proxy") })
	t := w.open()
	w.run(ctx, t, 2, "plan", "--detailed-exitcode", "prod")
	return t.lines()
}

func status(ctx context.Context, w *world) []line {
	w.write("fleet/.sandbox/win-07/C/k/README.txt", "edited by hand\n")
	t := w.open()
	w.run(ctx, t, 0, "status", "prod")
	w.run(ctx, t, 0, "status", "--parallel", "10", "--only", "drifted,unreachable", "fleet")
	return t.lines()
}

func doctor(ctx context.Context, w *world) []line {
	w.write("prod/.sandbox/win-1/.sandbox/quirks.json",
		`{"memory": 1073741824, "listeners": [{"protocol": "tcp", "port": 10256, "pid": 77}]}`)
	t := w.open()
	w.run(ctx, t, 1, "doctor", "prod")
	w.write("prod/.sandbox/win-1/.sandbox/quirks.json", "")
	w.quietly(ctx, "apply", "--auto-approve", "prod")
	return t.lines()
}

func upgrade(ctx context.Context, w *world) []line {
	var members []string
	for _, name := range []string{"kubeadm", "kube-log-runner", "kube-proxy", "kubectl", "kubelet"} {
		members = append(members, "kubernetes/node/bin/"+name+".exe")
	}
	content, _ := archive([]byte("v1.36.4: a sandbox plays this program\n"), members...)
	w.write("prod/mirror/kubernetes-node-windows-amd64.tar.gz", string(content))
	w.edit("prod/prod.join.hcl", `"1.36.3"`, `"1.36.4"`)
	w.quietly(ctx, "lock", "prod")
	t := w.open()
	w.run(ctx, t, 0, "plan", "prod")
	w.quietly(ctx, "apply", "--auto-approve", "prod")
	return t.lines()
}

// waits is a step that waits for a file, long enough to do something meanwhile.
const waits = `
step "file_ready" "inventory" {
  on      = node.win
  path    = "C:\\inventory\\done.txt"
  timeout = "30m"
  after   = ["motd"]
}
`

// lockHeld and interrupted share a run that waits for a file.
func lockHeld(ctx context.Context, w *world) []line {
	w.write("prod/wait.join.hcl", waits)
	w.edit("prod/prod.join.hcl", "was joined by", "is a node by")
	first, second := w.open(), w.open()
	w.start(ctx, first, "apply", "--auto-approve", "prod")
	w.try(func() error { return first.until(`^win-1 +inventory`, `^win-2 +inventory`) })
	w.run(ctx, second, 7, "apply", "--auto-approve", "prod")
	w.waiting = first
	return second.lines()
}

func interrupted(ctx context.Context, w *world) []line {
	t := w.waiting
	w.try(func() error { return t.press("\x03") })
	w.try(func() error { return t.wait(130) })
	w.write("prod/wait.join.hcl", "")
	w.quietly(ctx, "apply", "--auto-approve", "prod")
	return since(t.last(), "Stopping")
}

func history(ctx context.Context, w *world) []line {
	t := w.open()
	w.run(ctx, t, 0, "history", "prod")
	return t.lines()
}

func leave(ctx context.Context, w *world) []line {
	t := w.open()
	w.start(ctx, t, "leave", "--target", "win-2", "prod")
	w.try(func() error { return t.until("to continue:") })
	w.try(func() error { return t.press("yes\n") })
	w.try(func() error { return t.wait(0) })
	return t.lines()
}

func hostDown(ctx context.Context, w *world) []line {
	w.write("mixed/mixed.join.hcl", `
node "here" {
  os = "windows"
  connection "sandbox" { path = ".sandbox/here" }
}
node "there" {
  os = "windows"
  connection "ssh" {
    host     = "127.0.0.1"
    port     = 1
    user     = "Administrator"
    host_key = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"
  }
}
step "directory" "data" { path = "C:\\data" }
`)
	t := w.open()
	w.run(ctx, t, 4, "plan", "mixed")
	return t.lines()
}

// stop stops a service of a simulated machine behind nodejoin's back.
func stop(ctx context.Context, sandboxes, machine, service string) error {
	h, err := sandbox.Open(ctx, sandbox.Config{Path: filepath.Join(sandboxes, machine),
		ClusterDir: filepath.Join(sandboxes, "cluster")})
	if err != nil {
		return err
	}
	return h.StopService(ctx, service)
}
