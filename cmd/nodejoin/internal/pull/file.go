package pull

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"nodejoin/plan/names"
	"nodejoin/steps"
	"nodejoin/steps/artifact"
	"nodejoin/steps/kinds"
)

// File says which plan a node follows, and how.
type File struct {
	Version int `json:"version"`
	// Managed: a follow block of the plan has written the file, and installed the program that reads it.
	Managed bool   `json:"managed,omitempty"`
	Node    string `json:"node"`
	Plan    string `json:"plan"`   // name of its releases
	Source  string `json:"source"` // of the release: https://..., oci://HOST/REPOSITORY:TAG, or an absolute path
	// Signers is the file of trusted keys of SSH, and Sigstore that of trusted signers of Sigstore (signature.Trust);
	// both are absolute paths, and one is enough.
	Signers  string `json:"signers,omitempty"`
	Sigstore string `json:"sigstore,omitempty"`
	// Login is the file of the login at the server of Source, an absolute path; "" = it wants none.
	Login string `json:"login,omitempty"`
	// Kubeconfig is the access to the cluster, an absolute path; Sandbox is the folder of a simulated cluster.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	Sandbox    string `json:"sandbox,omitempty"`
	// Windows are the times at which a release is applied ("Sat,Sun 22:00-04:00", UTC); none = always.
	Windows []string `json:"windows,omitempty"`
	// Jitter is the longest time that the node waits before it applies a release ("10m").
	Jitter string `json:"jitter,omitempty"`
	// Values are those of the plan's variables that the bundle does not have.
	Values      map[string]string `json:"values,omitempty"`
	Environment string            `json:"environment,omitempty"`

	windows []kinds.RebootTime
	jitter  time.Duration
	text    []byte // of the file
	path    string
}

const (
	fileVersion = 1
	maxJitter   = 6 * time.Hour
)

// ReadFile reads the file at path.
func ReadFile(file string) (*File, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	f := &File{text: b, path: file}
	if err := d.Decode(f); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			err = fmt.Errorf("the JSON is wrong at byte %d", syntax.Offset)
		}
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return f, nil
}

func (f *File) check() error {
	switch {
	case f.Version != fileVersion:
		return fmt.Errorf("it has the version %d, and this nodejoin reads version %d", f.Version, fileVersion)
	case !names.IsDNS(f.Node) || !names.IsDNS(f.Plan):
		return errors.New("node and plan must be set: the node of this machine, and the name of the plan's releases")
	case f.Signers == "" && f.Sigstore == "":
		return errors.New("signers or sigstore must be set: whose releases this machine trusts")
	case f.Signers != "" && !filepath.IsAbs(f.Signers):
		return fmt.Errorf("signers is %q; it must be the absolute path of a file of trusted keys", f.Signers)
	case f.Sigstore != "" && !filepath.IsAbs(f.Sigstore):
		return fmt.Errorf("sigstore is %q; it must be the absolute path of a file of Sigstore signers", f.Sigstore)
	case f.Login != "" && !filepath.IsAbs(f.Login):
		return fmt.Errorf("login is %q; it must be the absolute path of a file with the login", f.Login)
	case (f.Kubeconfig == "") == (f.Sandbox == ""):
		return errors.New("exactly one of kubeconfig and sandbox must be set")
	case !filepath.IsAbs(f.Kubeconfig + f.Sandbox):
		return fmt.Errorf("%q must be an absolute path", f.Kubeconfig+f.Sandbox)
	}
	for _, text := range f.Windows {
		w, err := kinds.ParseRebootTime(text)
		if err != nil {
			return fmt.Errorf("windows: %w", err)
		}
		f.windows = append(f.windows, w)
	}
	if f.Jitter != "" {
		var err error
		if f.jitter, err = time.ParseDuration(f.Jitter); err != nil || f.jitter < 0 || f.jitter > maxJitter {
			return fmt.Errorf("jitter is %q; it must be a time such as \"10m\", at most %v", f.Jitter, maxJitter)
		}
	}
	s, err := f.source()
	if err == nil && s.File != "" && f.Login != "" {
		return errors.New("login is for a source on a server, and source is a path")
	}
	return err
}

// stands reports whether the file is still there and says the same: a machine that left the cluster while a round
// waited must not be set up again.
func (f *File) stands(file string) bool {
	b, err := os.ReadFile(file)
	return err == nil && bytes.Equal(b, f.text)
}

// source is where the release is.
func (f *File) source() (steps.Source, error) {
	if strings.HasPrefix(f.Source, artifact.OCIScheme) || secure(f.Source) {
		return steps.Source{URL: f.Source}, nil
	}
	if filepath.IsAbs(f.Source) {
		return steps.Source{File: f.Source}, nil
	}
	return steps.Source{}, fmt.Errorf("source is %q; it must be https://..., oci://HOST/REPOSITORY:TAG, or an absolute "+
		"path", steps.ShowURL(f.Source))
}

// place is the source for a message, without credentials.
func (f *File) place() string {
	if filepath.IsAbs(f.Source) {
		return f.Source
	}
	return steps.ShowURL(f.Source)
}

// secure reports whether an address is of https, or of this machine.
func secure(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// bundle is where the bundle of a release is: beside it, or by its digest in the same repository.
func (f *File) bundle(r Release) (steps.Source, error) {
	s, err := f.source()
	s.SHA256 = r.SHA256
	switch {
	case err != nil || strings.HasPrefix(s.URL, artifact.OCIScheme):
		return s, err
	case s.File != "":
		s.File = filepath.Join(filepath.Dir(s.File), r.Bundle)
		return s, nil
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return s, err
	}
	u.Path, u.RawPath = path.Join(path.Dir(u.Path), r.Bundle), ""
	s.URL = u.String()
	return s, nil
}

// mayApply reports whether a release may be applied at a time.
func (f *File) mayApply(now time.Time) bool {
	for _, w := range f.windows {
		if w.Holds(now) {
			return true
		}
	}
	return len(f.windows) == 0
}
