package hosttest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/steps/host"
)

// Fixture is a machine and what the suite may use of it.
type Fixture struct {
	Host host.Host
	// Dir is an existing, empty folder of the machine.
	Dir string
	// Program is a command that runs as a service until it is stopped, and accepts any further arguments. Its
	// first element is a single file that runs from any folder. Empty: there are no services to test.
	Program []string
	// Once is a program that prints the text and exits with code 3. Endless is the command of one that runs
	// until it is killed. The suite sets their Log.
	Once    func(t *testing.T) (p host.Program, prints string)
	Endless []string
	// NoDependencyStart: the machine's service manager starts a service without what it depends on. Windows
	// starts the dependencies; Wine does not.
	NoDependencyStart bool
	// Registry and Firewall report whether the machine has them; without one, its calls must return
	// host.ErrUnsupported. RegistryKey is the key to work below, default HKLM\SOFTWARE\nodejoin-hosttest.
	Registry, Firewall bool
	RegistryKey        string
	// Ports reports whether the machine can set dynamic ports and reserve ports. Without it these calls must
	// return host.ErrUnsupported.
	Ports bool
	// Feature is a feature of Windows that is off and can be turned on after a reboot; "" = the machine has
	// none, and the calls must return host.ErrUnsupported.
	Feature string
	// FeaturesUntried: the machine has features, but none of them may be changed.
	FeaturesUntried bool
	// Notes: the suite may leave a note that a reboot is needed.
	Notes bool
	// Rename: the suite may rename the machine and restore its name. RenamedAtOnce: a new name takes effect at
	// once although the machine is Windows, as under Wine.
	Rename, RenamedAtOnce bool
	// Sysctl is a kernel parameter that the suite may write with its own value; "" = the machine has none, and
	// the kernel calls must return host.ErrUnsupported.
	Sysctl string
	// Modules are kernel modules that are loaded, built in or can be loaded.
	Modules []string
	// Trust: the suite may add an authority to the machine's store and remove it.
	Trust bool
	// HTTP starts a server on the machine that answers url with status until stop is called; nil = none to
	// test.
	HTTP func(t *testing.T) (url string, status int, stop func())
	// Pipe starts a program that listens on a pipe or socket until stop is called; nil = none to test.
	Pipe func(t *testing.T) (address string, stop func())
	// AbsentPipe is the address of a pipe or socket that does not exist; "" = none.
	AbsentPipe string
}

// limit bounds one test of the suite.
const limit = time.Minute

// suite is one test on one machine.
type suite struct {
	*testing.T
	Fixture
	ctx context.Context
	os  string
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// is checks that an error matches want.
func (s *suite) is(what string, have, want error) {
	s.Helper()
	if !errors.Is(have, want) {
		s.Errorf("%s: error %v, want %v", what, have, want)
	}
}

// isNoAnswer checks that an error means "could not be answered" and not absence.
func (s *suite) isNoAnswer(what string, err error) {
	s.Helper()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		s.Errorf("%s: error %v, want one that is not absence", what, err)
	}
}

func (s *suite) equal(what string, have, want any) {
	s.Helper()
	if !reflect.DeepEqual(have, want) {
		s.Errorf("%s:\nhave %+v\nwant %+v", what, have, want)
	}
}

// path returns a path below the scratch folder.
func (s *suite) path(elem ...string) string {
	return host.Join(s.os, append([]string{s.Dir}, elem...)...)
}

func (s *suite) put(path, text string) {
	s.Helper()
	s.must(s.Host.WriteFile(s.ctx, path, strings.NewReader(text), host.WriteOptions{}))
}

func (s *suite) content(path, want string) {
	s.Helper()
	f, err := s.Host.Open(s.ctx, path)
	if err != nil {
		s.Error(err)
		return
	}
	data, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil || string(data) != want {
		s.Errorf("%s holds %q (%v), want %q", path, data, err, want)
	}
}

// names checks that a folder has exactly these entries.
func (s *suite) names(dir string, want ...string) {
	s.Helper()
	entries, err := s.Host.List(s.ctx, dir)
	if err != nil {
		s.Error(err)
		return
	}
	var have []string
	for _, e := range entries {
		have = append(have, e.Name)
	}
	if !slices.Equal(have, want) {
		s.Errorf("entries %q, want %q", have, want)
	}
}

func (s *suite) isAbsent(path string) {
	s.Helper()
	_, err := s.Host.Stat(s.ctx, path)
	s.is("stat "+path, err, fs.ErrNotExist)
}
