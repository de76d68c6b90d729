// Package modules reads modules of plans that are not beside them: archives, from an address or a registry. Each is
// unpacked once, into a folder of the user's cache that is named after its digest. An archive with another digest is
// not unpacked.
package modules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"nodejoin/cmd/nodejoin/internal/registry"
	"nodejoin/plan/source"
	"nodejoin/steps"
	"nodejoin/steps/artifact"
)

// Options of a Reader.
type Options struct {
	Offline bool // nothing is read over the network
	// Bundled returns the archive of a module that came with the plan in a bundle, and the archive's digest; "" = none
	// did. nil = the plan is not from a bundle.
	Bundled func(sha256 string) (file, digest string)
	Notice  func(text string) // hears of what may take a while
}

const (
	treeDir     = "tree"    // of a module in the cache: its files
	archiveName = "archive" // begins the name of its archive, which ends with how it is packed
	most        = 64 << 20  // bytes of an archive: more is a mistake, not a module
	unfinished  = "new-"    // begins the names of folders of a run that is under way, or was killed
	leftoverAge = 24 * time.Hour
	longest     = 10 * time.Minute // bound of reading one module
)

// Reader reads modules. The function is for plan.Options.
func Reader(ctx context.Context, opt Options) func(source.Remote) (dir string, err error) {
	return func(r source.Remote) (string, error) {
		cache, err := cacheDir()
		if err != nil {
			return "", err
		}
		m := &module{r, opt, "", r.SHA256}
		if opt.Bundled != nil {
			file, digest := opt.Bundled(r.SHA256)
			// A bundle does not have the manifest of an OCI artifact, so nothing shows that the archive is the artifact's.
			if m.bundled = file; file != "" && strings.HasPrefix(r.Address, artifact.OCIScheme) {
				m.want = digest
			}
		}
		at := filepath.Join(cache, m.want)
		if _, err := os.Stat(at); err == nil {
			return filepath.Join(at, treeDir), nil
		}
		return filepath.Join(at, treeDir), m.read(ctx, cache)
	}
}

// Digest reads what digests modules have now. An archive is in the cache then.
func Digest(ctx context.Context, opt Options) func(address string) (sha256 string, err error) {
	known := map[string]string{} // by address: many blocks may have one module
	return func(address string) (string, error) {
		if digest := known[address]; digest != "" {
			return digest, nil
		}
		m := &module{source.Remote{Address: address}, opt, "", ""}
		err := m.look(ctx)
		if err == nil {
			known[address] = m.want
		}
		return m.want, err
	}
}

// look finds the digest of a module.
func (m *module) look(ctx context.Context) error {
	repository, oci := strings.CutPrefix(m.Address, artifact.OCIScheme)
	if !oci {
		cache, err := cacheDir()
		if err != nil {
			return err
		}
		return m.read(ctx, cache)
	}
	ctx, cancel := m.bound(ctx)
	defer cancel()
	store := artifact.New(artifact.Options{Direct: true})
	defer store.Close()
	var err error
	m.want, err = (&registry.Client{Transport: store.Transport()}).Digest(ctx, repository)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// module is one that is read.
type module struct {
	source.Remote
	Options
	bundled string // its archive in the bundle of the plan; "" = none
	want    string // digest after which its folder in the cache is named; "" = what is read has it
}

// Archive is the archive of a module that was read before.
func Archive(r source.Remote) (file string, err error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	list, err := filepath.Glob(filepath.Join(cache, r.SHA256, archiveName+".*"))
	if err == nil && len(list) != 1 {
		err = fmt.Errorf("the module %s was not read", steps.ShowURL(r.Address))
	}
	if err != nil {
		return "", err
	}
	return list[0], nil
}

func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "nodejoin", "modules"), err
}

// bound bounds the reading of a module.
func (m *module) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, longest, fmt.Errorf("%s was not read within %s", steps.ShowURL(m.Address),
		longest))
}

// read puts a module into its folder of the cache, whole or not at all.
func (m *module) read(ctx context.Context, cache string) (err error) {
	ctx, cancel := m.bound(ctx)
	defer cancel()
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return err
	}
	sweep(cache)
	temp, err := os.MkdirTemp(cache, unfinished)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(temp) // sweep tries again
		}
	}()
	store := artifact.New(artifact.Options{Direct: true})
	defer store.Close()
	file, err := m.fetch(ctx, store, temp)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	if err := unpack(ctx, store, file, filepath.Join(temp, treeDir)); err != nil {
		return err
	}
	at := filepath.Join(cache, m.want)
	err = os.Rename(temp, at)
	if _, there := os.Stat(at); err != nil && there == nil { // another run was faster
		return os.RemoveAll(temp)
	}
	return err
}

// sweep removes what killed runs left. Its failures do not matter.
func sweep(cache string) {
	list, _ := filepath.Glob(filepath.Join(cache, unfinished+"*"))
	for _, dir := range list {
		if fi, err := os.Stat(dir); err == nil && time.Since(fi.ModTime()) > leftoverAge {
			_ = os.RemoveAll(dir)
		}
	}
}

// fetch writes the archive of a module into a folder, and verifies it.
func (m *module) fetch(ctx context.Context, store *artifact.Store, dir string) (string, error) {
	to, shown := filepath.Join(dir, archiveName), steps.ShowURL(m.Address)
	if m.bundled != "" {
		open := func() (io.ReadCloser, error) { return os.Open(m.bundled) }
		return m.write(to+ending(m.bundled), open, "the archive of "+shown+" in the bundle", m.want)
	}
	if m.Offline {
		return "", fmt.Errorf("%s was never read on this machine, and nothing may be read over the network", shown)
	}
	m.Notice("Reading the module " + shown)
	repository, oci := strings.CutPrefix(m.Address, artifact.OCIScheme)
	if oci {
		a, err := (&registry.Client{Transport: store.Transport()}).Archive(ctx, repository, m.SHA256)
		if err != nil {
			return "", err
		}
		return m.write(to+ending(a.Name), a.Open, shown, a.SHA256)
	}
	u, err := url.Parse(m.Address)
	if err != nil {
		return "", err
	}
	return m.write(to+ending(u.Path), func() (io.ReadCloser, error) {
		from, _, err := store.Open(ctx, steps.Source{URL: m.Address, SHA256: m.SHA256})
		return from, err
	}, shown, m.SHA256)
}

// ending is how the name of an archive ends.
func ending(name string) string {
	if strings.HasSuffix(strings.ToLower(name), ".tar.gz") {
		return ".tar.gz"
	}
	return strings.ToLower(path.Ext(filepath.ToSlash(name)))
}

// write writes what open gives, and verifies its digest; want is "" where nobody knows it. shown names it.
func (m *module) write(name string, open func() (io.ReadCloser, error), shown, want string) (_ string, err error) {
	r, err := open()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	w, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(r, most+1))
	if err = errors.Join(err, w.Sync(), w.Close()); err != nil {
		return "", err
	}
	if n > most {
		return "", fmt.Errorf("%s has more than %d MB, which is too much for a module", shown, most>>20)
	}
	have := hex.EncodeToString(sum.Sum(nil))
	if want == "" {
		m.want = have
	} else if have != want {
		return "", fmt.Errorf("%s has the digest %s, and the plan wants %s; either it was changed, or the digest is that "+
			"of another version", shown, have, want)
	}
	return name, nil
}

// unpack writes the files of an archive below a folder.
func unpack(ctx context.Context, store *artifact.Store, archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return store.Unpack(ctx, f, archive, runtime.GOOS, func(m steps.Member, r io.Reader) error {
		to := filepath.Join(dir, filepath.FromSlash(m.Name))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, r)
		return errors.Join(err, w.Sync(), w.Close()) // a later run trusts it
	})
}
