package transport

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"nodejoin/steps/transport/sshtest"
	"nodejoin/steps/transport/winrmtest"
)

// BenchmarkStage sends the 171 MB that a join takes to a machine, over loopback, which answers at once or after 50 ms:
// by SFTP; fetched by the machine over WinRM; and in parts through WinRM's shells. The ways take turns, so that other
// work on this computer meets them all. The machine is a process of its own, with the proxy that delays: its processor
// time is that of the test's servers and of the programs that they start, and not what Windows would need.
func BenchmarkStage(b *testing.B) {
	src := artifact(b, 171e6)
	var files Contents
	b.Cleanup(files.Close)
	content, err := files.Open(b.Context(), src)
	if err != nil {
		b.Fatal(err)
	}
	for _, delay := range []time.Duration{0, 50 * time.Millisecond} {
		b.Run(delay.String(), func(b *testing.B) {
			ways := stageWays(b, delay)
			for b.Loop() {
				for _, w := range ways {
					w.send(b, content)
				}
			}
			b.ReportMetric(0, "ns/op") // of all ways
			var times []float64
			for _, w := range ways {
				b.ReportMetric(median(w.wall), w.name+"-s")
				b.ReportMetric(median(w.controller), w.name+"-controller-cpu-s")
				b.ReportMetric(median(w.machine), w.name+"-machine-cpu-s")
			}
			sftp, parts := ways[0], ways[len(ways)-1]
			for i := range sftp.wall {
				times = append(times, parts.wall[i]/sftp.wall[i])
			}
			b.ReportMetric(median(times), "parts/SFTP")
		})
	}
}

// stageWay is one way to send an artifact, and what it took, in seconds.
type stageWay struct {
	name                      string
	conn                      Conn
	at                        *ownProcess
	wall, controller, machine []float64
}

func stageWays(b *testing.B, delay time.Duration) []*stageWay {
	b.Setenv("TEST_WINRM", winrmPassword)
	b.Setenv("SSH_AUTH_SOCK", "")
	byWinRM := func(name string, unreached bool) *stageWay {
		p := startMachine(b, "winrm", delay)
		m := &winrmMachine{Server: &winrmtest.Server{SHA256: p.said.Key}}
		conn := m.dial(b, m.config(p.said.Addr))
		conn.(*winrmConn).unreached = unreached
		return &stageWay{name: name, conn: conn, at: p}
	}
	p := startMachine(b, "ssh", delay)
	m := &machine{dir: p.said.Dir, identity: p.said.Identity, host: newSigner(b, ed25519Key(b))}
	c := m.config(p.said.Addr)
	c.HostKey = p.said.Key
	ways := []*stageWay{{name: "SFTP", conn: m.dial(b, c), at: p}}
	if delay == 0 { // what is fetched does not go through the link that delays
		ways = append(ways, byWinRM("fetched", false))
	}
	ways = append(ways, byWinRM("parts", true))
	for _, w := range ways {
		if err := stage(b.Context(), w.conn, artifact(b, 1), nil); err != nil { // the agent is there
			b.Fatal(err)
		}
	}
	return ways
}

func (w *stageWay) send(b *testing.B, c *Content) {
	_ = os.Remove(filepath.Join(w.at.said.Dir, "blobs", c.Source.SHA256)) // of the last turn
	begin, own, machine := time.Now(), cpuSeconds(b), w.at.cpu(b)
	if err := w.conn.Stage(b.Context(), c, nil); err != nil {
		b.Fatal(err)
	}
	w.wall = append(w.wall, time.Since(begin).Seconds())
	w.controller = append(w.controller, cpuSeconds(b)-own)
	w.machine = append(w.machine, w.at.cpu(b)-machine)
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// cpuSeconds is the processor time of this process and of those that it started and that have ended.
func cpuSeconds(t testing.TB) float64 {
	total := 0.0
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			t.Fatal(err)
		}
		total += float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	return total
}

// ownProcess is a machine of the tests in a process of its own.
type ownProcess struct {
	in   io.Writer
	out  *json.Decoder
	said saidMachine
}

// saidMachine is what such a process says: first where it is, and then, for each line of its input, its processor
// time.
type saidMachine struct {
	Addr, Identity string
	Key            string // how its key or its certificate is pinned
	Dir            string // nodejoin's folder
	CPU            float64
}

// The environment of such a process.
const (
	envMachine = "TEST_OWN_PROCESS"
	envDelay   = "TEST_OWN_PROCESS_DELAY" // nanoseconds, there and back
)

func startMachine(b *testing.B, kind string, delay time.Duration) *ownProcess {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run", "^TestOwnProcess$")
	cmd.Env = append(os.Environ(), envMachine+"="+kind, envDelay+"="+strconv.FormatInt(int64(delay), 10))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			b.Errorf("the machine: %v", err)
		}
	})
	p := &ownProcess{in: in, out: json.NewDecoder(out)}
	if err := p.out.Decode(&p.said); err != nil {
		b.Fatal(err)
	}
	return p
}

func (p *ownProcess) cpu(b *testing.B) float64 {
	var said saidMachine
	_, err := fmt.Fprintln(p.in)
	if err == nil {
		err = p.out.Decode(&said)
	}
	if err != nil {
		b.Fatal(err)
	}
	return said.CPU
}

// TestOwnProcess is a machine in a process of its own, which BenchmarkStage starts.
func TestOwnProcess(t *testing.T) {
	kind := os.Getenv(envMachine)
	if kind == "" {
		t.Skip("BenchmarkStage starts it")
	}
	delay, err := strconv.ParseInt(os.Getenv(envDelay), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	var m saidMachine
	if kind == "ssh" {
		s := newMachine(t)
		s.place(t)
		m = saidMachine{Addr: s.addr, Identity: s.identity, Key: ssh.FingerprintSHA256(s.host.PublicKey()), Dir: s.dir}
	} else {
		s := newWinRM(t)
		s.place(t)
		m = saidMachine{Addr: s.Addr, Key: s.SHA256, Dir: filepath.Join(s.drive, "data")}
	}
	if delay > 0 {
		m.Addr = sshtest.NewProxy(t, m.Addr, time.Duration(delay)/2).Addr
	}
	out := json.NewEncoder(os.Stdout)
	for line := make([]byte, 1); err == nil; _, err = os.Stdin.Read(line) {
		m.CPU = cpuSeconds(t)
		if err := out.Encode(m); err != nil {
			t.Fatal(err)
		}
	}
}
