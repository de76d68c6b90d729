package firstboot

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"nodejoin/cmd/nodejoin/internal/atomicfile"
	"nodejoin/plan"
	"nodejoin/plan/recipe"
	"nodejoin/steps"
	"nodejoin/steps/artifact"
	"nodejoin/steps/cluster"
	"nodejoin/steps/engine"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/wait"
)

// Outcome is what the exit code of an apply means for a first boot.
type Outcome int

// What may become of an apply.
const (
	Failed    Outcome = iota // trying again does not help
	Finished                 // the machine has joined
	Rebooting                // it goes on after a boot
	Waiting                  // the cluster or the machine does not answer yet
)

// retryEvery is the time between two tries.
const retryEvery = 15 * time.Second

// Apply runs a command of nodejoin for a first boot.
type Apply func(ctx context.Context, args []string) (code int, o Outcome)

// Alone is an apply of a part of a plan: by the machine itself, or of what an image has.
type Alone interface {
	// Prepare leaves of a plan what the machine applies. ErrNotNow ends the apply; why has been said.
	Prepare(ctx context.Context, p *plan.Compiled) error
	// Options are those of an engine that runs on this machine.
	Options(p *plan.Compiled, opt engine.Options) engine.Options
}

// ErrNotNow is the error of a machine that does not apply a plan now.
var ErrNotNow = errors.New("not now")

// Run is the first boot of this machine.
type Run struct {
	Path string // of its File
	// Apply runs 'nodejoin apply' with these arguments.
	Apply Apply
	Say   func(string)

	file  *File  // at Path
	guest *guest // nil = the cluster was not opened
	// written are kubeconfigs that a join writes the certificate into. One that succeeds removes them; what is in them
	// cannot be revoked. They are noted in the folder of the run, for the process after a boot.
	written []string
}

// work is the folder of the run, which it makes and removes.
func (r *Run) work() string { return r.Path + ".work" }

// note is the file that has the paths of written.
func (r *Run) note() string { return filepath.Join(r.work(), "kubeconfigs") }

// Do joins this machine, and returns the exit code of the last apply. It tries again while the cluster does not
// answer, until its access ends. Afterwards the secrets are gone from this machine, unless it goes on after a boot.
func (r *Run) Do(ctx context.Context) (int, error) {
	var err error
	if r.Path, err = filepath.Abs(r.Path); err != nil {
		return 0, err
	}
	noted := r.recall()
	if r.file, err = Read(r.Path); err != nil {
		// The file stays: it may be another one. A folder with a note is one of ours.
		for _, path := range r.written {
			err = errors.Join(err, gone(path))
		}
		if len(r.written) > 0 || noted != nil {
			err = errors.Join(err, os.RemoveAll(r.work()))
		}
		return 0, errors.Join(err, noted)
	}
	if noted != nil {
		return 0, errors.Join(noted, r.clean(ctx))
	}
	code, outcome, err := r.join(ctx, r.file)
	if outcome == Rebooting && ctx.Err() == nil {
		r.Say("the machine must be rebooted; the same command goes on after that")
		return code, err
	}
	return code, errors.Join(err, r.clean(ctx))
}

func (r *Run) join(ctx context.Context, f *File) (int, Outcome, error) {
	if time.Now().After(f.Expires) {
		return 0, Failed, expired(f.Node, f.Expires)
	}
	if err := Folders(r.work()); err != nil {
		return 0, Failed, err
	}
	ctx, cancel := context.WithDeadlineCause(ctx, f.Expires, expired(f.Node, f.Expires))
	defer cancel()
	var bundle string
	err := r.again(ctx, f, func() (waits string, err error) {
		if bundle, err = r.fetch(ctx, f); errors.As(err, new(*steps.FetchError)) {
			return err.Error(), nil
		}
		return "", err
	})
	if err != nil {
		return 0, Failed, err
	}
	args := []string{"apply", "--auto-approve", "--display", "plain"}
	if f.Environment != "" {
		args = append(args, "--env", f.Environment)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Values)) {
		args = append(args, "--var", name+"="+f.Values[name])
	}
	code, outcome := 0, Failed
	err = r.again(ctx, f, func() (waits string, err error) {
		if code, outcome = r.Apply(ctx, append(args, bundle)); outcome == Waiting {
			waits = fmt.Sprintf("exit code %d", code)
		}
		return waits, nil
	})
	return code, outcome, err
}

// again tries until nothing is waited for any more, or the access of the file ends.
func (r *Run) again(ctx context.Context, f *File, try func() (waits string, err error)) error {
	for {
		waits, err := try()
		if waits == "" || err != nil {
			return err
		}
		r.Say(fmt.Sprintf("%s; next try in %v, until %s", waits, retryEvery, f.Expires.UTC().Format(time.RFC3339)))
		if wait.Pause(ctx, retryEvery) != nil {
			return context.Cause(ctx)
		}
	}
}

// Folders makes the folder of a run, and puts there what an apply caches: a machine that works by itself may have no
// home folder.
func Folders(work string) error {
	if err := os.MkdirAll(work, 0o700); err != nil {
		return err
	}
	set := map[string]string{"XDG_CACHE_HOME": work}
	if runtime.GOOS == "windows" {
		set = map[string]string{"LOCALAPPDATA": work}
	} else if os.Getenv("HOME") == "" {
		set["HOME"] = work
	}
	for name, value := range set {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// fetch gets the bundle, by its digest.
func (r *Run) fetch(ctx context.Context, f *File) (string, error) {
	to := filepath.Join(r.work(), "bundle.tar")
	if _, err := os.Stat(to); err == nil {
		return to, nil // of the run before a boot
	}
	r.Say("fetching the bundle")
	store := artifact.New(artifact.Options{Direct: true})
	defer store.Close()
	in, _, err := store.Open(ctx, f.Bundle.source())
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := os.OpenFile(to+".part", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), in)
	if err = errors.Join(err, out.Close()); err != nil {
		return "", err
	}
	if have := hex.EncodeToString(sum.Sum(nil)); have != f.Bundle.SHA256 {
		return "", &steps.Error{Code: steps.CodeDigest, Summary: "wrong digest",
			Detail: fmt.Sprintf("the bundle at %s has the sha256 %s, not %s; another file has been put there, or it was cut",
				f.Bundle.From, have, f.Bundle.SHA256),
			Remedy: "put the bundle there that the user data was written for, or write the user data again"}
	}
	return to, os.Rename(to+".part", to)
}

// clean removes what the machine has of the first boot, and ends its access to the cluster.
func (r *Run) clean(ctx context.Context) error {
	var ended error
	if r.guest != nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), retryEvery)
		defer cancel()
		if err := r.guest.end(bounded); err != nil {
			r.Say("the account's token was not revoked; it ends by itself: " + err.Error())
		}
	}
	for _, path := range append(r.written, r.Path) {
		ended = errors.Join(ended, gone(path))
	}
	return errors.Join(ended, os.RemoveAll(r.work()))
}

// gone removes a file that may be missing.
func gone(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// recall reads the note of the process before a boot.
func (r *Run) recall() error {
	b, err := os.ReadFile(r.note())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, &r.written)
	}
	if err != nil {
		return fmt.Errorf("what the join wrote before the reboot is not known: %w", err)
	}
	return nil
}

// Prepare leaves of a plan what a first boot does.
func (r *Run) Prepare(_ context.Context, p *plan.Compiled) error {
	Own(p, r.file.Node)
	for _, n := range p.Nodes {
		for _, s := range n.Steps {
			k, ok := kinds.As[kinds.Kubeconfig](s)
			if ok && n.Connection.Type == "local" && strings.Contains(k.Token, steps.Ref(recipe.JoinToken)) {
				r.written = append(r.written, k.Path)
			}
		}
	}
	slices.Sort(r.written)
	r.written = slices.Compact(r.written)
	b, err := json.Marshal(r.written)
	if err != nil || len(r.written) == 0 {
		return err
	}
	return errors.Join(os.MkdirAll(r.work(), 0o700), atomicfile.Write(r.note(), b, 0o600))
}

// Options are those of an engine that runs on this machine.
func (r *Run) Options(p *plan.Compiled, opt engine.Options) engine.Options {
	opt.Members, opt.Resume = nil, nil
	open := opt.Cluster
	if r.file.Server != "" {
		open = r.open(p)
	}
	opt.Cluster = func(ctx context.Context) (kube.API, error) {
		api, err := open(ctx)
		if err != nil {
			return nil, err
		}
		r.guest = &guest{API: api, own: r.file.Node, token: r.file.bootstrap()}
		return r.guest, nil
	}
	return opt
}

// open opens the cluster by the access of the file.
func (r *Run) open(p *plan.Compiled) func(context.Context) (kube.API, error) {
	return func(ctx context.Context) (kube.API, error) {
		type named = map[string]any
		b, err := json.Marshal(named{"apiVersion": "v1", "kind": "Config", "current-context": "first-boot",
			"clusters": []named{{"name": "cluster", "cluster": named{"server": r.file.Server,
				"certificate-authority-data": base64.StdEncoding.EncodeToString([]byte(r.file.CA))}}},
			"users":    []named{{"name": "machine", "user": named{"token": r.file.Account}}},
			"contexts": []named{{"name": "first-boot", "context": named{"cluster": "cluster", "user": "machine"}}}})
		if err != nil {
			return nil, err
		}
		at := filepath.Join(r.work(), "kubeconfig")
		if err := atomicfile.Write(at, b, 0o600); err != nil {
			return nil, err
		}
		return cluster.Open(ctx, cluster.Config{Kubeconfig: at, CAHash: p.Cluster.CAHash, FieldManager: "nodejoin"})
	}
}
