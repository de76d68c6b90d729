package kinds

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
	"nodejoin/steps/wait"
)

// The prefixes of the claims.
const (
	sshServerPrefix record.Prefix = "ssh_server"
	sshKeyPrefix    record.Prefix = "ssh_key"
)

// OpenSSH in Windows: learn.microsoft.com/windows-server/administration/openssh.
const (
	sshCapability = "OpenSSH.Server~~~~0.0.1.0"
	sshService    = "sshd"
	sshFolder     = `C:\ProgramData\ssh`
	sshAdminKeys  = sshFolder + `\administrators_authorized_keys`
	sshHostKey    = sshFolder + `\ssh_host_ed25519_key.pub`
	sshConfig     = sshFolder + `\sshd_config`
	// The server copies it to sshConfig when it first starts.
	sshDefault = `C:\Windows\System32\OpenSSH\sshd_config_default`
)

// Installing a capability with its files at hand takes minutes; fetching them longer.
var sshServerKind = steps.Kind{Name: "ssh_server", Place: steps.OnHost, OS: "windows", Timeout: 30 * time.Minute,
	Doc: "OpenSSH's server of Windows: installed, started with the machine, running, with a key of its " +
		"administrators",
	Outputs: []string{"host_key", "port"},
	Undo: map[record.Prefix]steps.Undo{
		sshServerPrefix: {Called: "SSH server", New: undoSSHServer, Snapshot: steps.SnapshotNone, Stays: sshStays},
		sshKeyPrefix: {Called: "SSH key", New: undoSSHKey, Snapshot: steps.SnapshotNone, Stays: sshStays,
			Replaced: true},
	},
	New: func() any { return &SSHServer{} }, Claims: steps.Claims((*SSHServer).claims),
	Title:  steps.Title(func(*SSHServer) string { return sshService }),
	Review: steps.Review((*SSHServer).review)}

const sshStays = "it is a way into the machine; it goes when the machine leaves"

// SSHServer is the server with a key that logs administrators in. Outputs: the server's host key, and the port at
// which it listens, once it runs.
type SSHServer struct {
	Key string `json:"key" doc:"public key of administrators, \"ssh-ed25519 AAAA...\", without options"`
}

func (s *SSHServer) claims(*steps.Env) []record.Key {
	return []record.Key{sshServerPrefix.Of(sshService), sshKeyPrefix.Of(s.line())}
}

// line is the type and the key, without a comment.
func (s *SSHServer) line() string {
	f := strings.Fields(s.Key)
	return strings.Join(f[:min(2, len(f))], " ")
}

func (s *SSHServer) review(steps.Written) []steps.Remark {
	if s.Key == "" || steps.HasRef(s.Key) || PublicKey(s.Key) {
		return nil
	}
	return []steps.Remark{{Arg: "key", Summary: "invalid public key", Detail: NotPublicKey}}
}

// NotPublicKey says what a public key must be.
const NotPublicKey = "This is not the public key of an SSH key pair. Write one line as ssh-keygen does into the " +
	"file that ends in .pub, \"ssh-ed25519 AAAA...\", for example file(\"id_ed25519.pub\"). Options are not supported."

// PublicKey reports whether the text is a line of an authorized_keys file (sshd's manual, AUTHORIZED_KEYS FILE FORMAT)
// without options.
func PublicKey(text string) bool {
	text = strings.TrimSpace(text)
	fields := strings.Fields(text)
	if strings.ContainsAny(text, "\r\n") || len(fields) < 2 {
		return false
	}
	// RFC 4253, 6.6: the key begins with the length and the text of its type.
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	name := []byte(fields[0])
	return err == nil && len(blob) > 4+len(name) && int(binary.BigEndian.Uint32(blob)) == len(name) &&
		string(blob[4:4+len(name)]) == fields[0]
}

// sshBefore is how the service was before nodejoin.
type sshBefore struct {
	Start   host.StartType `json:"start"`
	Running bool           `json:"running,omitempty"`
}

func startsWithMachine(t host.StartType) bool { return t == host.StartAuto || t == host.StartDelayed }

func (s *SSHServer) Check(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, error) {
	if !PublicKey(s.Key) {
		return steps.Change{}, steps.Invalid("%s", NotPublicKey)
	}
	c := steps.Change{Action: steps.ActionUpdate}
	differs := func(name, have, want string) {
		if have != want {
			c.Diffs = append(c.Diffs, steps.Diff{Name: name, Have: have, Want: want})
		}
	}
	svc, err := r.Service(ctx, sshService)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		state, err := r.Feature(ctx, sshCapability)
		if errors.Is(err, fs.ErrNotExist) {
			return steps.Change{}, &steps.Error{Code: steps.CodeFailed, Summary: "Windows has no SSH server",
				Detail: "this Windows does not know the capability " + sshCapability,
				Remedy: "use Windows Server 2019 or later; or install OpenSSH's server, so that there is a service sshd"}
		}
		if err != nil {
			return steps.Change{}, err
		}
		differs("capability", string(state), string(host.FeatureOn))
		svc = host.Service{State: host.ServiceStopped}
	case err != nil:
		return steps.Change{}, err
	}
	if !startsWithMachine(svc.Start) {
		differs("start", string(svc.Start), string(host.StartAuto))
	}
	differs("state", string(svc.State), string(host.ServiceRunning))
	f, err := readAdminKeys(ctx, r)
	if err != nil {
		return steps.Change{}, err
	}
	if keyAt(f, s.line()) < 0 {
		differs("key", "", s.line())
	} else {
		differs("access of the keys", accessText(f.Access), accessText(host.AccessPrivate))
	}
	if len(c.Diffs) == 0 {
		c.Action = steps.ActionNone
	}
	c.Outputs, err = sshOutputs(ctx, r, svc)
	return c, err
}

// hostKeyBound is how long a server that has started may take to make its folder and host keys. A server without
// a key of this type starts as well.
const hostKeyBound = 20 * time.Second

// awaitHostKey waits until a server that has started has a host key, within hostKeyBound.
func awaitHostKey(ctx context.Context, r host.FilesReader) error {
	bounded, cancel := context.WithTimeout(ctx, hostKeyBound)
	defer cancel()
	err := wait.Until(bounded, time.Second, func() (bool, error) {
		key, err := readHostKey(bounded, r)
		return key != "", err
	})
	if ctx.Err() == nil && bounded.Err() != nil {
		return nil
	}
	return err
}

// readHostKey reads the host key of the server; "" = there is none yet.
func readHostKey(ctx context.Context, r host.FilesReader) (string, error) {
	f, err := host.ReadFile(ctx, r, sshHostKey, host.MaxText)
	if err != nil || f == nil || !PublicKey(string(f.Content)) {
		return "", err
	}
	return (&SSHServer{Key: string(f.Content)}).line(), nil
}

// sshOutputs are the host key and the port of a server that runs, as far as they are known.
func sshOutputs(ctx context.Context, r host.Reader, svc host.Service) (map[string]string, error) {
	out := map[string]string{}
	if svc.PID == 0 {
		return out, nil
	}
	key, err := readHostKey(ctx, r)
	if err != nil {
		return out, err
	}
	if key != "" {
		out["host_key"] = key
	}
	list, err := r.Listeners(ctx)
	if err != nil && !errors.Is(err, host.ErrUnsupported) {
		return out, err
	}
	for _, l := range list {
		if l.PID == svc.PID && l.Protocol == "tcp" {
			out["port"] = strconv.Itoa(int(l.Port))
		}
	}
	return out, nil
}

// readAdminKeys reads the keys of the administrators; nil = there is no such file. What others may write is not taken
// over: the server ignores it until nodejoin closes it, and would then let them in.
func readAdminKeys(ctx context.Context, r host.FilesReader) (*host.File, error) {
	fi, err := r.Stat(ctx, sshAdminKeys)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case fi.Open:
		return nil, &steps.Error{Code: steps.CodeFailed, Summary: "others may have written keys",
			Detail: sshAdminKeys + " can be changed by others than the administrators",
			Remedy: "check the keys in it, then remove the file or restrict it to administrators"}
	}
	return host.ReadFile(ctx, r, sshAdminKeys, host.MaxText)
}

// keyAt is the index of the line with a key, without options; -1 = there is none.
func keyAt(f *host.File, line string) int {
	if f == nil {
		return -1
	}
	return slices.IndexFunc(strings.Split(string(f.Content), "\n"), func(have string) bool {
		return (&SSHServer{Key: have}).line() == line
	})
}

func (s *SSHServer) Apply(ctx context.Context, h host.Host, e *steps.Env, _ steps.Change) (steps.Outcome, error) {
	done := steps.Outcome{Outputs: map[string]string{}}
	svc, err := s.install(ctx, h, e)
	if err != nil {
		return done, err
	}
	if !startsWithMachine(svc.Start) {
		svc.Start = host.StartAuto
		if err := h.UpdateService(ctx, svc.ServiceConfig); err != nil {
			return done, err
		}
	}
	if svc.State != host.ServiceRunning {
		if err := startService(ctx, h, sshService, ""); err != nil {
			return done, err
		}
		if err := awaitHostKey(ctx, h); err != nil {
			return done, err
		}
	}
	f, err := readAdminKeys(ctx, h)
	if err != nil {
		return done, err
	}
	text := ""
	if f != nil {
		text = string(f.Content)
	}
	if keyAt(f, s.line()) < 0 {
		if err := e.Claim(ctx, h, record.New{Key: sshKeyPrefix.Of(s.line())}); err != nil {
			return done, err
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += strings.TrimSpace(s.Key) + "\n"
	}
	return done, h.WriteFile(ctx, sshAdminKeys, strings.NewReader(text), host.WriteOptions{Access: host.AccessPrivate})
}

// install claims the service and, where there is none, has Windows install it.
func (s *SSHServer) install(ctx context.Context, h host.Host, e *steps.Env) (host.Service, error) {
	svc, err := h.Service(ctx, sshService)
	claim := record.New{Key: sshServerPrefix.Of(sshService)}
	if err == nil {
		claim.Previous = sshBefore{Start: svc.Start, Running: svc.State == host.ServiceRunning}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return svc, err
	}
	there, err := host.Exists(ctx, h, sshFolder)
	if err != nil {
		return svc, err
	}
	if !there {
		claim.Detail = sshFolder
	}
	if err := e.Claim(ctx, h, claim); err != nil || claim.Previous != nil {
		return svc, err
	}
	if err := h.EnableFeature(ctx, sshCapability); err != nil {
		return svc, errors.Join(err, notInstalled(ctx, h, e))
	}
	if svc, err = h.Service(ctx, sshService); errors.Is(err, fs.ErrNotExist) {
		return svc, &steps.Error{Code: steps.CodeFailed, Summary: "the SSH server is not there yet",
			Detail: "Windows has installed " + sshCapability + ", but there is no service sshd",
			Remedy: "reboot the machine, then apply again"}
	}
	return svc, err
}

// notInstalled notes that Windows has not installed the server: one that is there later is somebody else's.
func notInstalled(ctx context.Context, h host.Host, e *steps.Env) error {
	if _, err := h.Service(ctx, sshService); !errors.Is(err, fs.ErrNotExist) {
		return nil // it is there, or could not be asked for
	}
	e.Record.SetUndone(sshServerPrefix.Of(sshService))
	return e.Record.Save(ctx, h, e.Facts)
}

// sshCarries is what a leave that comes over SSH leaves.
const sshCarries = "this leave came over SSH; to remove it, too, leave over WinRM"

// sshUndo is the undoing of the server: one that nodejoin had installed goes, any other is as it was, and so is the
// folder that the server makes when it first starts, unless others have keys or a configuration in it.
type sshUndo struct {
	before    sshBefore
	existed   bool
	newFolder bool // it was not there before
}

func undoSSHServer(_ record.Key, claim record.Claim) (steps.Undoing, error) {
	before, err := record.Previous[sshBefore](claim)
	u := sshUndo{before: before, existed: claim.Existed, newFolder: claim.Detail != ""}
	return steps.Undoing{Check: u.check, Apply: u.apply}, err
}

func (u sshUndo) check(ctx context.Context, r host.Reader, e *steps.Env) (c steps.Change, left string, err error) {
	svc, err := r.Service(ctx, sshService)
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, "", err
	}
	folder, left, err := u.folder(ctx, r, e)
	if err != nil {
		return c, "", err
	}
	restored := !there || u.existed && svc.Start == u.before.Start &&
		(u.before.Running || svc.State == host.ServiceStopped)
	switch {
	case restored && !folder:
		return c, left, nil
	case e.OverSSH:
		return c, sshCarries, nil
	case u.existed && !restored:
		return steps.Restored(steps.Diff{Name: "start", Have: string(svc.Start), Want: string(u.before.Start)}), left, nil
	}
	return steps.Change{Action: steps.ActionDelete}, left, nil
}

// folder reports whether the server's folder goes, or why it stays.
func (u sshUndo) folder(ctx context.Context, r host.Reader, e *steps.Env) (goes bool, left string, err error) {
	if !u.newFolder {
		return false, "", nil
	}
	if goes, err = host.Exists(ctx, r, sshFolder); err != nil || !goes {
		return false, "", err
	}
	keys, err := host.ReadFile(ctx, r, sshAdminKeys, host.MaxText)
	if err != nil {
		return false, "", err
	}
	if keys != nil && slices.ContainsFunc(strings.Split(string(keys.Content), "\n"), func(line string) bool {
		have, ok := e.Record.Lookup(sshKeyPrefix.Of((&SSHServer{Key: line}).line()))
		return strings.TrimSpace(line) != "" && (!ok || have.Undone)
	}) {
		return false, sshAdminKeys + " has keys of others, so the folder stays", nil
	}
	config, err := host.ReadFile(ctx, r, sshConfig, host.MaxText)
	if err != nil || config == nil {
		return err == nil, "", err
	}
	made, err := host.ReadFile(ctx, r, sshDefault, host.MaxText)
	if err != nil {
		return false, "", err
	}
	if made == nil || !bytes.Equal(config.Content, made.Content) {
		return false, sshConfig + " may have been changed by others, so the folder stays", nil
	}
	return true, "", nil
}

func (u sshUndo) apply(ctx context.Context, h host.Host, e *steps.Env) error {
	svc, err := h.Service(ctx, sshService)
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if there && svc.State != host.ServiceStopped && !u.before.Running {
		if err := h.StopService(ctx, sshService); err != nil {
			return err
		}
	}
	// Before the server, with which the configuration goes that the one in the folder is compared with.
	goes, _, err := u.folder(ctx, h, e)
	if err != nil {
		return err
	}
	if goes {
		if err := steps.RemoveTree(ctx, h, e.Facts.OS, sshFolder); err != nil {
			return err
		}
	}
	switch {
	case there && u.existed:
		svc.Start = u.before.Start
		return h.UpdateService(ctx, svc.ServiceConfig)
	case there:
		return h.DisableFeature(ctx, sshCapability)
	}
	return nil
}

// undoSSHKey takes the key out of the file that holds those of the administrators.
func undoSSHKey(key record.Key, _ record.Claim) (steps.Undoing, error) {
	line := key.Name
	return steps.Undoing{
		Check: func(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, string, error) {
			f, err := host.ReadFile(ctx, r, sshAdminKeys, host.MaxText)
			switch {
			case err != nil || keyAt(f, line) < 0:
				return steps.Change{}, "", err
			case e.OverSSH:
				return steps.Change{}, sshCarries, nil
			}
			return steps.Change{Action: steps.ActionDelete}, "", nil
		},
		Apply: func(ctx context.Context, h host.Host, _ *steps.Env) error {
			f, err := host.ReadFile(ctx, h, sshAdminKeys, host.MaxText)
			if err != nil || f == nil {
				return err
			}
			lines := strings.Split(string(f.Content), "\n")
			for at := keyAt(f, line); at >= 0; at = keyAt(f, line) {
				lines = slices.Delete(lines, at, at+1)
				f.Content = []byte(strings.Join(lines, "\n"))
			}
			if strings.TrimSpace(string(f.Content)) == "" {
				return h.Remove(ctx, sshAdminKeys)
			}
			return h.WriteFile(ctx, sshAdminKeys, strings.NewReader(string(f.Content)), host.WriteOptions{Access: f.Access})
		},
	}, nil
}
