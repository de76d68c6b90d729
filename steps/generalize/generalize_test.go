package generalize

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/record"
)

// machine is one with these files.
func machine(t *testing.T, os string, files map[string]string) (host.Host, *steps.Env) {
	t.Helper()
	return machineIn(t, t.TempDir(), os, files)
}

func machineIn(t *testing.T, dir, os string, files map[string]string) (host.Host, *steps.Env) {
	t.Helper()
	h, err := sandbox.Open(t.Context(), sandbox.Config{Path: dir, OS: os, IP: "192.0.2.20"})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range files {
		write(t, h, path, content)
	}
	f, err := h.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rec, err := record.Load(t.Context(), h, f)
	if err != nil {
		t.Fatal(err)
	}
	return h, &steps.Env{Node: "n-1", Facts: f, Record: rec}
}

func write(t *testing.T, h host.Host, path, content string) {
	t.Helper()
	if err := h.WriteFile(t.Context(), path, strings.NewReader(content), host.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// claim notes that a step made a thing.
func claim(t *testing.T, h host.Host, e *steps.Env, step string, key record.Key) {
	t.Helper()
	if err := e.Record.Claim(t.Context(), h, e.Facts, step, true, record.New{Key: key}); err != nil {
		t.Fatal(err)
	}
}

const (
	wrote = "/etc/app/settings" // of the step s
	id    = "0123456789abcdef0123456789abcdef"
)

// TestFinds: what must not be in an image is found in a file that nodejoin wrote, wherever it is in it.
func TestFinds(t *testing.T) {
	req := Request{Node: "n-1", Steps: []string{"s"}, Addresses: []string{"203.0.113.7"},
		Secrets: []string{"correct horse"}}
	found := map[string]bool{}
	for _, c := range []struct{ text, what string }{
		{"n-1", name}, {"host n-1.example\n", name}, {"n-10, n-1-b, on-1 and N-1", ""},
		{"192.0.2.20", address}, {"https://203.0.113.7:6443", address}, {"192.0.2.200, 1192.0.2.20", ""},
		{"password: correct horse.", secret}, {"xcorrect horsex", secret}, {"correct-horse", ""},
		{"-----BEGIN EC PRIVATE KEY-----\nMHc", privateKey}, {`"-----BEGIN PRIVATE KEY-----\nMHc"`, privateKey},
		{"-----BEGIN OPENSSH PRIVATE KEY-----\r\nb3Blb", privateKey}, {"a PRIVATE KEY----- in a program", ""},
		{"-----BEGIN CERTIFICATE-----\nMII", certificate},
		{"client-key-data: LS0tLS1CRUdJTiBFQyBQUklWQVRF", encoded},
		{"token: eyJhbGciOiJSUzI1NiJ9.e30.x", token}, {"machine " + id, theID},
	} {
		for _, at := range []int{0, 1, chunk - 3, chunk, chunk + 9, 2*chunk - 1} {
			h, e := machine(t, "linux", map[string]string{"/etc/machine-id": id + "\n"})
			write(t, h, wrote, strings.Repeat(" ", at)+c.text+" "+strings.Repeat("\x00", chunk/2))
			claim(t, h, e, "s", record.File.Of(wrote))
			reply, err := Run(t.Context(), h, e, req)
			want := []Found{}
			if c.what != "" {
				want, found[c.what] = []Found{{wrote, c.what}}, true
			}
			if diff := cmp.Diff(want, reply.Left); diff != "" || err != nil {
				t.Errorf("%q at %d: %v\n%s", c.text, at, err, diff)
			}
			if c.what != "" && len(reply.Removed) > 0 {
				t.Errorf("%q: %v is removed all the same", c.text, reply.Removed)
			}
		}
	}
	for _, what := range []string{name, address, secret, privateKey, certificate, encoded, token, theID} {
		if !found[what] {
			t.Errorf("no case has %s", what)
		}
	}
}

// TestFindsOnWindows: texts are found in UTF-16, too, and in the registry, the environment and services.
func TestFindsOnWindows(t *testing.T) {
	const key, guid = `HKLM\SOFTWARE\Example`, "249a4273-1f18-4de9-8dfa-69c622434371"
	req := Request{Node: "n-1", Steps: []string{"s"}, Secrets: []string{"correct horse"}}
	for text, what := range map[string]string{"n-1": name, "at 192.0.2.20.": address, "xcorrect horsex": secret,
		"id={" + guid + "}": theID, "n-10, n-1-b, on-1": "", "192.0.2.200": ""} {
		h, e := machine(t, "windows", nil)
		if err := h.SetRegistryValue(t.Context(), cryptography, machineGUID,
			host.RegistryValue{Type: "string", String: guid}); err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]host.RegistryValue{"one": {Type: "string", String: text},
			"two": {Type: "multi_string", Strings: []string{"x", text}},
			"raw": {Type: "binary", Binary: wide(text)}, "of others": {Type: "string", String: text}} {
			if err := h.SetRegistryValue(t.Context(), key, k, v); err != nil {
				t.Fatal(err)
			}
		}
		want := []Found{}
		expect := func(key record.Key, detail, path string) {
			t.Helper()
			if err := e.Record.Claim(t.Context(), h, e.Facts, "s", true, record.New{Key: key, Detail: detail}); err != nil {
				t.Fatal(err)
			}
			if what != "" {
				want = append(want, Found{path, what})
			}
		}
		for at, offset := range []int{0, 1, chunk - 3, chunk, chunk + 9, 2*chunk - 1} {
			path := fmt.Sprintf(`C:\app\settings-%d`, at)
			write(t, h, path, strings.Repeat(" ", offset)+string(wide(text+" "))+strings.Repeat("\x00", chunk/2))
			expect(record.File.Of(path), "", path)
		}
		if err := errors.Join(h.SetMachineEnv(t.Context(), "EXAMPLE", text), h.CreateService(t.Context(),
			host.ServiceConfig{Name: "example", Command: []string{`C:\x.exe`, text}, Start: host.StartManual})); err != nil {
			t.Fatal(err)
		}
		expect(record.Env.Of("EXAMPLE"), "", "env:EXAMPLE")
		for _, value := range []string{"one", "raw", "two"} {
			k := record.RegistryValueKey(key, value)
			expect(k, value, k.String())
		}
		expect(record.Service.Of("example"), "", "service:example")
		reply, err := Run(t.Context(), h, e, req)
		if diff := cmp.Diff(want, reply.Left); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
}

// TestArtifacts: what came by its digest has nothing of the machine, and is not searched.
func TestArtifacts(t *testing.T) {
	key := "-----BEGIN PRIVATE KEY-----\nof a test in the program"
	h, e := machine(t, "linux", map[string]string{"/opt/bin/one": key, "/opt/bin/two": key, "/opt/bin/own": key})
	e.Record.Archives["a"] = record.Unpacked{Files: map[string]string{"/opt/bin/two": "digest"}}
	claim(t, h, e, "s", record.Directory.Of("/opt/bin"))
	reply, err := Run(t.Context(), h, e, Request{Node: "n-1", Steps: []string{"s"}, Artifacts: []string{"/opt/bin/one"}})
	if diff := cmp.Diff([]Found{{"/opt/bin/own", privateKey}}, reply.Left); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

// ofMachine are files that a machine has of its own, and those beside them that stay.
var ofMachine = map[string][2]map[string]string{
	"linux": {
		{"/etc/ssh/ssh_host_rsa_key": hostKey, "/etc/ssh/ssh_host_rsa_key.pub": hostKey, "/etc/machine-id": theID,
			"/var/lib/dbus/machine-id": theID, "/var/lib/cloud/instances/i-1/user-data.txt": ofCloudInit,
			"/var/lib/cloud/data/instance-id": ofCloudInit, "/var/log/cloud-init.log": ofCloudInit,
			"/var/lib/dhcp/dhclient.leases": lease, "/var/lib/NetworkManager/secret_key": lease,
			"/run/systemd/journal/flushed": logs, "/var/log/journal/0123/system.journal": logs,
			"/var/log/journal/0123/user-1000.journal": logs, "/var/log/auth.log.1": logs, "/var/log/wtmp": logs,
			"/var/lib/systemd/random-seed": seed, "/var/lib/nodejoin/history.json": ofRun,
			"/var/lib/containerd/io.containerd.grpc.v1.introspection/uuid": theID},
		{"/etc/ssh/sshd_config": "", "/var/lib/cloud/seed/nocloud/meta-data": "", "/var/log/apt/term.log": ""},
	},
	"windows": {
		{`C:\ProgramData\ssh\ssh_host_ed25519_key`: hostKey, `C:\ProgramData\nodejoin\history.json`: ofRun,
			`C:\ProgramData\containerd\root\io.containerd.grpc.v1.introspection\uuid`: theID},
		{`C:\ProgramData\ssh\administrators_authorized_keys`: ""},
	},
}

// TestRemoves: what is of this machine goes, in one run or in several that are interrupted at each change of the
// machine; what is beside it stays. A check removes nothing.
func TestRemoves(t *testing.T) {
	for os, of := range ofMachine {
		for stop := 0; ; stop++ {
			h, e := machine(t, os, nil)
			for path := range of[0] {
				write(t, h, path, id)
			}
			for path := range of[1] {
				write(t, h, path, "stays")
			}
			if _, err := Run(t.Context(), host.Intercept(h, func(op, subject string) error {
				return errors.New("a check changes " + subject)
			}), e, Request{Node: "n-1", Check: true}); err != nil {
				t.Fatal(err)
			}
			calls, stopped := 0, errors.New("stopped")
			_, err := Run(t.Context(), host.Intercept(h, func(string, string) error {
				if calls++; calls > stop {
					return stopped
				}
				return nil
			}), e, Request{Node: "n-1"})
			done := !errors.Is(err, stopped)
			if done && err != nil {
				t.Fatal(err)
			}
			reply, err := Run(t.Context(), h, e, Request{Node: "n-1"})
			if err != nil || len(reply.Left) > 0 || stop > 0 && len(reply.Removed) == len(of[0]) {
				t.Errorf("%s, stopped after %d calls: %v, %+v", os, stop, err, reply)
			}
			for path := range of[0] {
				if !gone(t, h, path) {
					t.Errorf("%s, stopped after %d calls: %s is still there", os, stop, path)
				}
			}
			for path := range of[1] {
				if gone(t, h, path) {
					t.Errorf("%s: %s is gone", os, path)
				}
			}
			if done {
				break
			}
		}
	}
}

// TestLinks: of a link only the link goes, not what it leads to.
func TestLinks(t *testing.T) {
	const kept = "/srv/kept"
	dir := t.TempDir()
	h, e := machineIn(t, dir, "linux", map[string]string{kept + "/file": "stays", "/var/lib/cloud/seed/a": "stays"})
	for _, at := range []string{"instance", "data"} {
		err := os.Symlink(filepath.Join(dir, filepath.FromSlash(kept)), filepath.Join(dir, "var/lib/cloud", at))
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Run(t.Context(), h, e, Request{Node: "n-1"}); err != nil {
		t.Fatal(err)
	}
	if gone(t, h, kept+"/file") || !gone(t, h, "/var/lib/cloud/instance") || !gone(t, h, "/var/lib/cloud/data") {
		t.Error("a link was followed, or is still there")
	}
}

func gone(t *testing.T, h host.Host, path string) bool {
	t.Helper()
	fi, err := h.Stat(t.Context(), path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err != nil || path == machineID && fi.Size == 0
}

// TestWords: the table of places is in the words that a reply may have.
func TestWords(t *testing.T) {
	for _, p := range places {
		if !slices.Contains(Whats, p.what) {
			t.Errorf("%s: %q is not among Whats", p.dir, p.what)
		}
	}
}

// TestJoined: a machine with more than what an image may have is refused, and stays as it is.
func TestJoined(t *testing.T) {
	h, e := machine(t, "linux", map[string]string{"/etc/ssh/ssh_host_rsa_key": id})
	claim(t, h, e, "kubelet", record.File.Of("/etc/kubelet.conf"))
	_, err := Run(t.Context(), h, e, Request{Node: "n-1", Steps: []string{"other"}})
	if err == nil || !strings.Contains(err.Error(), "file:/etc/kubelet.conf of the step kubelet") {
		t.Error(err)
	}
	if gone(t, h, "/etc/ssh/ssh_host_rsa_key") {
		t.Error("the host key is gone")
	}
}

// TestRecord: the record that goes into the image has no times.
func TestRecord(t *testing.T) {
	h, e := machine(t, "linux", nil)
	e.Record.Digests["/x"] = record.Stamp{SHA256: "ab", ModTime: e.Facts.BootTime}
	if _, err := Run(t.Context(), h, e, Request{Node: "n-1"}); err != nil {
		t.Fatal(err)
	}
	f, err := host.ReadFile(context.Background(), h, record.Path(e.Facts), host.MaxText)
	if err != nil || bytes.Contains(f.Content, []byte("mod_time")) {
		t.Errorf("%v: %s", err, f.Content)
	}
}
