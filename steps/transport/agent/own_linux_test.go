package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/host/linux"
	"nodejoin/steps/record"
	"nodejoin/steps/transport/wire"
)

const nobody = 65534

// foreign creates nodejoin's folder with a record before nodejoin does, and makes another user own some of it.
func foreign(t *testing.T, give ...string) (s *server, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of another user")
	}
	dir = filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"record.json", "history.json"} {
		if err := os.WriteFile(filepath.Join(dir, name),
			[]byte(`{"version":2,"claims":{"file:/etc/passwd":{"step":"x"}}}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range give {
		if err := os.Lchown(filepath.Join(dir, path), nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	h, err := linux.New(linux.Options{DataDir: dir, EnvFile: filepath.Join(t.TempDir(), "environment")})
	if err != nil {
		t.Fatal(err)
	}
	return &server{opt: Options{Host: h, DataDir: dir, Hello: wire.Hello{OS: "linux"}}}, dir
}

// nodejoin does not read a folder, or a record in it, that another user put in the place of its own. The first
// contact moves it out of the way.
func TestForeignFolder(t *testing.T) {
	for name, give := range map[string][]string{"the folder": {""}, "the record": {"record.json"},
		"both": {"", "record.json"}} {
		s, dir := foreign(t, give...)
		facts := host.Facts{OS: "linux", DataDir: dir}
		if _, err := record.Load(t.Context(), s.opt.Host, facts); !errors.Is(err, host.ErrForeign) {
			t.Errorf("%s: the record: %v", name, err)
		}
		if give[0] == "" {
			if err := s.own(t.Context()); !errors.Is(err, host.ErrForeign) || steps.AsError(err).Remedy == "" {
				t.Errorf("%s: a change: %v", name, err)
			}
		}
		done, err := s.secure(t.Context(), wire.None{})
		if err != nil || len(done.Moved) != 1 {
			t.Fatalf("%s: %+v, %v", name, done, err)
		}
		rec, err := record.Load(t.Context(), s.opt.Host, facts)
		if err != nil || len(rec.Claims) != 0 {
			t.Errorf("%s: after that the record has %v, %v", name, rec, err)
		}
		if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("%s: the folder: %v, %v", name, fi, err)
		}
		if again, err := s.secure(t.Context(), wire.None{}); err != nil || len(again.Moved) != 0 {
			t.Errorf("%s: again: %+v, %v", name, again, err)
		}
	}
}

// What nodejoin made itself stays where it is.
func TestOwnFolder(t *testing.T) {
	s, dir := foreign(t)
	done, err := s.secure(t.Context(), wire.None{})
	if err != nil || len(done.Moved) != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	rec, err := record.Load(t.Context(), s.opt.Host, host.Facts{OS: "linux", DataDir: dir})
	if err != nil || len(rec.Claims) != 1 {
		t.Errorf("%v, %v", rec, err)
	}
}

// A link that another user owns is moved, not followed.
func TestForeignLink(t *testing.T) {
	s, dir := foreign(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Symlink(dir, link), os.Lchown(link, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	s.opt.DataDir = link
	if err := s.opt.Host.Mkdir(t.Context(), link, host.AccessPrivate); !errors.Is(err, host.ErrForeign) {
		t.Errorf("the folder through the link: %v", err)
	}
	done, err := s.secure(t.Context(), wire.None{})
	if fi, statErr := os.Lstat(link); err != nil || len(done.Moved) != 1 || statErr != nil || !fi.IsDir() {
		t.Errorf("%+v, %v; %v, %v", done, err, fi, statErr)
	}
	if _, err := os.Stat(filepath.Join(dir, "record.json")); err != nil {
		t.Error(err)
	}
}

// The agent does not run from a program that others can change or could have put there.
func TestForeignProgram(t *testing.T) {
	s, dir := foreign(t)
	agent := filepath.Join(dir, ".nodejoin", "agent")
	program := filepath.Join(agent, "nodejoin-agent")
	if err := errors.Join(os.MkdirAll(agent, 0o700), os.WriteFile(program, nil, 0o700)); err != nil {
		t.Fatal(err)
	}
	opt := s.opt
	opt.Program = program
	if err := checkProgram(t.Context(), opt); err != nil {
		t.Error(err)
	}
	for _, path := range []string{program, agent, filepath.Dir(agent)} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := checkProgram(t.Context(), opt); !errors.Is(err, host.ErrForeign) {
			t.Errorf("%s: %v", path, err)
		}
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
