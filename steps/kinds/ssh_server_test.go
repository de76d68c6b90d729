package kinds_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/record"
	"nodejoin/steps/stepstest"
)

const (
	sshKeysFile   = `C:\ProgramData\ssh\administrators_authorized_keys`
	sshConfigFile = `C:\ProgramData\ssh\sshd_config`
	sshKeyA       = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB"
	sshKeyB       = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJC"
)

func sshServer(key string) []steps.Spec {
	return []steps.Spec{stepstest.Spec("ssh_server", "ssh", &kinds.SSHServer{Key: key + " ops\n"})}
}

// wantSSH checks that the server runs, starts with the machine, and has these keys, which only administrators read.
func wantSSH(keys string) func(t *testing.T, h host.Host) {
	return func(t *testing.T, h host.Host) {
		t.Helper()
		svc, err := h.Service(t.Context(), "sshd")
		if err != nil || svc.State != host.ServiceRunning || svc.Start != host.StartAuto {
			t.Errorf("sshd: %+v, %v", svc, err)
		}
		holds(sshKeysFile, keys)(t, h)
		if fi, err := h.Stat(t.Context(), sshKeysFile); err != nil || fi.Access != host.AccessPrivate {
			t.Errorf("access of the keys is %q, %v", fi.Access, err)
		}
	}
}

// TestSSHServerLeaves: a leave removes what nodejoin made and nothing else: its key, and the server where nodejoin had
// it installed. One that was there is as it was. A leave that comes over SSH does not end it.
func TestSSHServerLeaves(t *testing.T) {
	for name, tt := range map[string]struct {
		there   host.StartType // "" = not installed
		runs    bool
		keys    string // of others
		overSSH bool
		later   string         // keys that others add after the apply
		config  string         // what others make of sshd_config then
		want    host.StartType // after the leave; "" = there is none
		left    string
	}{
		"installed":                                 {},
		"installed, then a key of others":           {later: sshKeyB + "\n", left: sshKeyB + "\n"},
		"installed, then a configuration of others": {config: "Port 2222\n"},
		"installed, leave by SSH":                   {overSSH: true, want: host.StartAuto, left: sshKeyA + " ops\n"},
		"was there, stopped": {there: host.StartManual, keys: sshKeyB + "\n", want: host.StartManual,
			left: sshKeyB + "\n"},
		"was there and ran": {there: host.StartAuto, runs: true, want: host.StartAuto},
		"ran, and leave by SSH": {there: host.StartManual, runs: true, overSSH: true, want: host.StartAuto,
			left: sshKeyA + " ops\n"},
		"was disabled": {there: host.StartDisabled, want: host.StartDisabled},
		"its key was there before": {there: host.StartAuto, runs: true, keys: sshKeyA + " old\n", want: host.StartAuto,
			left: sshKeyA + " old\n"},
	} {
		t.Run(name, func(t *testing.T) {
			h := stepstest.OpenHost(t, "windows")
			if tt.there != "" {
				stepstest.Must(t, h.EnableFeature(t.Context(), "OpenSSH.Server~~~~0.0.1.0"))
				svc, err := h.Service(t.Context(), "sshd")
				stepstest.Must(t, err)
				stepstest.Must(t, h.StartService(t.Context(), "sshd"))
				if !tt.runs {
					stepstest.Must(t, h.StopService(t.Context(), "sshd"))
				}
				svc.Start = tt.there
				stepstest.Must(t, h.UpdateService(t.Context(), svc.ServiceConfig))
			}
			if tt.keys != "" {
				writeSSH(t, h, sshKeysFile, tt.keys)
			}
			stepstest.Applied(t, h, nil, sshServer(sshKeyA))
			if tt.later != "" {
				writeSSH(t, h, sshKeysFile, sshKeyA+" ops\n"+tt.later)
			}
			if tt.config != "" {
				writeSSH(t, h, sshConfigFile, tt.config)
			}
			x := sshExecutor(h)
			req := executor.LeaveRequest{Node: "node-1", OverSSH: tt.overSSH}
			reply, err := x.Leave(t.Context(), req)
			if err != nil || reply.Err != nil {
				t.Fatalf("%+v, %v", reply.Err, err)
			}
			wantSSHFolder(t, h, reply, tt.later+tt.config)
			if tt.config != "" {
				holds(sshConfigFile, tt.config)(t, h)
			}
			svc, err := h.Service(t.Context(), "sshd")
			switch {
			case tt.want == "" && !errors.Is(err, fs.ErrNotExist):
				t.Errorf("sshd is left: %+v, %v", svc, err)
			case tt.want != "" && (err != nil || svc.Start != tt.want):
				t.Errorf("sshd: %+v, %v; want start %s", svc, err, tt.want)
			case tt.want != "" && (svc.State == host.ServiceRunning) != (tt.runs || tt.overSSH):
				t.Errorf("sshd is %s", svc.State)
			}
			have, err := host.ReadFile(t.Context(), h, sshKeysFile, host.MaxText)
			if text := textOf(have); err != nil || text != tt.left {
				t.Errorf("keys that are left: %q, %v; want %q", text, err, tt.left)
			}
		})
	}
}

func writeSSH(t *testing.T, h host.Host, path, text string) {
	t.Helper()
	stepstest.Must(t, h.WriteFile(t.Context(), path, strings.NewReader(text),
		host.WriteOptions{Access: host.AccessPrivate}))
}

// wantSSHFolder checks that the leave names the server's folder if others have something in it, and only then.
func wantSSHFolder(t *testing.T, h host.Host, reply executor.LeaveReply, ofOthers string) {
	t.Helper()
	for _, item := range reply.Items {
		named := strings.Contains(item.Left, `C:\ProgramData\ssh`)
		if item.Key == record.Prefix("ssh_server").Of("sshd") && named != (ofOthers != "") {
			t.Errorf("the leave says %q of the server; of others is %q", item.Left, ofOthers)
		}
	}
}

// lateKeys is a machine whose SSH server has no host key yet at the first looks after its start.
type lateKeys struct {
	host.Host
	looks int
}

func (l *lateKeys) Stat(ctx context.Context, path string) (host.FileInfo, error) {
	if path == `C:\ProgramData\ssh\ssh_host_ed25519_key.pub` {
		if l.looks++; l.looks < 4 {
			return host.FileInfo{}, fs.ErrNotExist
		}
	}
	return l.Host.Stat(ctx, path)
}

// TestSSHServerHostKey: the first apply says the host key, also of a server that makes it after it has started.
func TestSSHServerHostKey(t *testing.T) {
	reply := stepstest.Applied(t, &lateKeys{Host: stepstest.OpenHost(t, "windows")}, nil, sshServer(sshKeyA))
	if !kinds.PublicKey(reply.Values["ssh.host_key"]) {
		t.Errorf("values of the apply: %q", reply.Values)
	}
}

// refusing is a machine whose Windows refuses to install a capability, as Windows Update does over WinRM.
type refusing struct{ host.Host }

func (refusing) EnableFeature(context.Context, string) error { return errors.New("access is denied") }

// TestSSHServerByHand: a server that an administrator installs after nodejoin could not is the administrator's.
func TestSSHServerByHand(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	if reply := stepstest.Apply(t, refusing{h}, nil, sshServer(sshKeyA)); reply.Err == nil {
		t.Fatal("the capability is refused, and the apply does not fail")
	}
	stepstest.Must(t, h.EnableFeature(t.Context(), "OpenSSH.Server~~~~0.0.1.0"))
	stepstest.Must(t, h.StartService(t.Context(), "sshd"))
	writeSSH(t, h, sshKeysFile, sshKeyB+"\n")
	stepstest.Applied(t, h, nil, sshServer(sshKeyA))
	reply, err := sshExecutor(h).Leave(t.Context(), executor.LeaveRequest{Node: "win-1"})
	if err != nil || reply.Err != nil {
		t.Fatalf("%+v, %v", reply.Err, err)
	}
	if svc, err := h.Service(t.Context(), "sshd"); err != nil || svc.State != host.ServiceRunning {
		t.Errorf("sshd: %+v, %v", svc, err)
	}
	holds(sshKeysFile, sshKeyB+"\n")(t, h)
}

// TestSSHServerOtherKey: a key that the plan replaces no longer logs anybody in; keys of others do.
func TestSSHServerOtherKey(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	other := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIENDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0ND"
	for _, key := range []string{sshKeyA, sshKeyB} {
		if _, err := stepstest.Plan(t.Context(), h, nil, "p", sshServer(key)); err != nil {
			t.Fatal(err)
		}
		if key == sshKeyA {
			writeSSH(t, h, sshKeysFile, other+"\n"+sshKeyA+" ops\n")
		}
	}
	wantSSH(other+"\n"+sshKeyB+" ops\n")(t, h)
}

func sshExecutor(h host.Host) *executor.Executor {
	return executor.NewExecutor(kinds.Catalog(), h, nil, func(event.Event) {})
}

func textOf(f *host.File) string {
	if f == nil {
		return ""
	}
	return string(f.Content)
}

// TestSSHServerStays: a plan that no longer has the step leaves the way into the machine, until a leave.
func TestSSHServerStays(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	other := []steps.Spec{stepstest.Spec("directory", "d", &kinds.Directory{Path: `C:\d`})}
	for _, list := range [][]steps.Spec{append(sshServer(sshKeyA), other...), other} {
		if _, err := stepstest.Plan(t.Context(), h, nil, "p", list); err != nil {
			t.Fatal(err)
		}
		wantSSH(sshKeyA+" ops\n")(t, h)
	}
	reply, err := sshExecutor(h).Leave(t.Context(), executor.LeaveRequest{Node: "win-1"})
	if err != nil || reply.Err != nil {
		t.Fatalf("%+v, %v", reply.Err, err)
	}
	if _, err := h.Service(t.Context(), "sshd"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("sshd is left: %v", err)
	}
}

// TestSSHServerOutputs: a later run knows the host key.
func TestSSHServerOutputs(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	stepstest.Applied(t, h, nil, sshServer(sshKeyA))
	reply, err := sshExecutor(h).Check(t.Context(), executor.Request{Node: "node-1", Steps: sshServer(sshKeyA)})
	if err != nil || len(reply.Results) != 1 ||
		!strings.HasPrefix(reply.Results[0].Change.Outputs["host_key"], "ssh-ed25519 AAAA") {
		t.Errorf("%+v, %v", reply.Results, err)
	}
}

// TestPublicKey: what is not one line of a public key is refused; a private key is not shown.
func TestPublicKey(t *testing.T) {
	for text, want := range map[string]bool{
		sshKeyA: true, sshKeyA + " a comment": true, sshKeyA + "\n": true,
		"": false, "ssh-ed25519": false, "ssh-rsa" + strings.TrimPrefix(sshKeyA, "ssh-ed25519"): false,
		sshKeyA + "\n" + sshKeyB: false, `from="10.0.0.1" ` + sshKeyA: false, "ssh-ed25519 AAAA": false,
		"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA": false,
	} {
		if have := kinds.PublicKey(text); have != want {
			t.Errorf("%q: %v", text, have)
		}
	}
}
