// Package hosttest is the suite that every host.Host passes: the sentences of the
// contract in package host, each asked of a machine.
//
// It needs nothing but the standard library, so that it can be built into a test
// program for any machine.
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
	// Program is a command that runs as a service until it is stopped, with any
	// further arguments; its first element is a single file that runs from any
	// folder. Empty: the machine has no services to try.
	Program []string
	// Once is a program that prints the text and ends with code 3, and Endless the
	// command of one that runs until it is killed. The suite gives their Log.
	Once    func(t *testing.T) (p host.Program, prints string)
	Endless []string
	// NoDependencyStart: at a start the machine's service manager does not look at
	// what the service depends on. Windows does; Wine does not.
	NoDependencyStart bool
	// Registry and Firewall say whether the machine has them; without one, its calls
	// must be host.ErrUnsupported. RegistryKey is the key to work below, default
	// HKLM\SOFTWARE\nodejoin-hosttest.
	Registry, Firewall bool
	RegistryKey        string
	// Ports says whether ports can be given out and reserved by its calls; without it
	// they must be host.ErrUnsupported.
	Ports bool
	// Feature is a feature of Windows that is off and can be turned on after a reboot;
	// "" = the machine has none, and the calls must be host.ErrUnsupported.
	Feature string
	// FeaturesUntried: the machine has features, and none of them may be touched.
	FeaturesUntried bool
	// Notes says whether the suite may leave a note that a reboot is needed.
	Notes bool
	// Rename says that the suite may give the machine another name, and its own again;
	// RenamedAtOnce that the name counts at once though it is Windows, as under Wine.
	Rename, RenamedAtOnce bool
	// Sysctl is a kernel parameter whose value the suite may write again; "" = the
	// machine has none, and the calls of the kernel must be host.ErrUnsupported.
	Sysctl string
	// Modules are modules of its kernel that are loaded or built in, or can be loaded.
	Modules []string
	// Trust says that the suite may put an authority into the machine's store, and take
	// it out again.
	Trust bool
	// HTTP starts a server of the machine that answers url with status until stop is
	// called; nil: there is none to try.
	HTTP func(t *testing.T) (url string, status int, stop func())
	// Pipe starts a program that listens on a pipe or socket until stop is called;
	// nil: there is none to try.
	Pipe func(t *testing.T) (address string, stop func())
	// AbsentPipe is the address of a pipe or socket that does not exist; "" = none.
	AbsentPipe string
}

// limit bounds one test of the suite.
const limit = time.Minute

// Run runs the suite; open gives a machine for each test of it.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	for _, test := range []struct {
		name string
		f    func(*suite)
	}{
		{"facts", (*suite).facts},
		{"files/write", (*suite).write},
		{"files/interrupted write", (*suite).interruptedWrite},
		{"files/digest", (*suite).digest},
		{"files/exclusive", (*suite).exclusive},
		{"files/list", (*suite).list},
		{"files/absence", (*suite).absence},
		{"files/access", (*suite).access},
		{"files/rename", (*suite).rename},
		{"files/remove", (*suite).remove},
		{"files/mkdir", (*suite).mkdir},
		{"files/unmount", (*suite).unmount},
		{"files/free space", (*suite).freeSpace},
		{"files/paths", (*suite).badPaths},
		{"services/config", (*suite).serviceConfig},
		{"services/parameters", (*suite).serviceParameters},
		{"services/invalid", (*suite).serviceInvalid},
		{"services/run", (*suite).serviceRun},
		{"services/start", (*suite).serviceStart},
		{"services/dependents", (*suite).serviceDependents},
		{"services/program in use", (*suite).programInUse},
		{"programs/run", (*suite).programRun},
		{"programs/killed", (*suite).programKilled},
		{"registry", (*suite).registry},
		{"registry/names", (*suite).registryNames},
		{"environment", (*suite).environment},
		{"firewall", (*suite).firewall},
		{"kernel", (*suite).kernel},
		{"ports/dynamic", (*suite).dynamicPorts},
		{"ports/reserved", (*suite).reservedPorts},
		{"ports/excluded", (*suite).excludedPorts},
		{"trusted authorities", (*suite).trustedCAs},
		{"features", (*suite).features},
		{"host name", (*suite).hostName},
		{"reboot noted", (*suite).rebootNoted},
		{"probes/http", (*suite).probeHTTP},
		{"probes/pipe", (*suite).probePipe},
		{"probes/api", (*suite).probeAPI},
		{"survey/adapters", (*suite).adapters},
		{"survey/routes", (*suite).routes},
		{"survey/listeners", (*suite).listeners},
		{"survey/hns", (*suite).hnsNetworks},
		{"cancelled", (*suite).cancelled},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			s := &suite{T: t, Fixture: open(t), ctx: ctx}
			facts, err := s.Host.Facts(ctx)
			s.must(err)
			s.os = facts.OS
			test.f(s)
		})
	}
}

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

// is wants an error of a kind.
func (s *suite) is(what string, have, want error) {
	s.Helper()
	if !errors.Is(have, want) {
		s.Errorf("%s: error %v, want %v", what, have, want)
	}
}

// isNoAnswer wants an error that is not absence: the question could not be answered.
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

// path is a path below the scratch folder.
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

// names wants exactly these entries in a folder.
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

func (s *suite) facts() {
	f, err := s.Host.Facts(s.ctx)
	s.must(err)
	if f.OS != "windows" && f.OS != "linux" {
		s.Errorf("OS %q", f.OS)
	}
	if f.Arch == "" || f.Hostname == "" || f.Build == "" || f.DataDir == "" {
		s.Errorf("a fact is missing: %+v", f)
	}
	if f.BootTime.IsZero() || f.BootTime.After(time.Now().Add(time.Minute)) {
		s.Errorf("boot time %s", f.BootTime)
	}
	if (f.ManagementIP == "") != (f.Subnet == "") {
		s.Errorf("address %q with subnet %q", f.ManagementIP, f.Subnet)
	}
	again, err := s.Host.Facts(s.ctx)
	s.must(err)
	s.equal("facts asked again", again, f)
}
