package main

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// Secrets in the scripts' plans begin with this. Nothing that nodejoin prints or keeps on the
// controller may contain them, or tokens or private keys.
var secretForms = regexp.MustCompile(`S3CR3T[-_A-Za-z0-9]*|\b[a-z0-9]{6}\.[a-z0-9]{16}\b|` +
	`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.|-----BEGIN [A-Z ]*PRIVATE KEY-----`)

// seenEnv names the folder in which mainSeen keeps the output of processes.
const seenEnv = "NODEJOIN_TEST_SEEN"

// mainSeen is main, with a copy of its output in a file, except output to a terminal.
func mainSeen() {
	dir := os.Getenv(seenEnv)
	if fi, err := os.Stdout.Stat(); dir == "" || err != nil || fi.Mode()&fs.ModeCharDevice != 0 {
		main()
		return
	}
	f, err := os.CreateTemp(dir, "output-*")
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(f, "%q\n", os.Args)
	var mu sync.Mutex
	var copied sync.WaitGroup
	tee := func(to *os.File) *os.File {
		r, w, err := os.Pipe()
		if err != nil {
			panic(err)
		}
		copied.Go(func() { _, _ = io.Copy(&seen{to: to, f: f, mu: &mu}, r) })
		return w
	}
	os.Stdout, os.Stderr = tee(os.Stdout), tee(os.Stderr)
	code := run(os.Args[1:])
	_, _ = os.Stdout.Close(), os.Stderr.Close()
	copied.Wait()
	os.Exit(code)
}

// seen writes to the copy first, then to the output.
type seen struct {
	to, f *os.File
	mu    *sync.Mutex
}

func (s *seen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.f.Write(b); err != nil {
		return 0, err
	}
	return s.to.Write(b)
}

// seeSecrets makes every script end with a search for secrets in everything that its
// processes printed, in their history, in bundles, and in the records on simulated machines.
func seeSecrets(e *testscript.Env) error {
	dir, err := os.MkdirTemp("", "nodejoin-seen-")
	if err != nil {
		return err
	}
	e.Vars = append(e.Vars, seenEnv+"="+dir)
	search := &secretSearch{e.T().(interface{ Errorf(string, ...any) })}
	e.Defer(func() {
		defer os.RemoveAll(dir)
		search.folder(dir, search.everything)
		search.folder(filepath.Join(e.WorkDir, ".local", "state"), search.everything)
		search.folder(e.WorkDir, search.bundlesAndNotes)
	})
	return nil
}

// secretSearch reports secrets in files.
type secretSearch struct {
	t interface{ Errorf(string, ...any) }
}

// folder searches the regular files below a folder, which need not exist.
func (x *secretSearch) folder(root string, file func(path string) error) {
	_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if err := file(p); err != nil {
				x.t.Errorf("%s: %v", p, err)
			}
		}
		return nil
	})
}

func (x *secretSearch) everything(path string) error {
	b, err := os.ReadFile(path)
	if err == nil {
		x.text(path, b)
	}
	return err
}

func (x *secretSearch) bundlesAndNotes(path string) error {
	switch {
	case filepath.Ext(path) == ".zip" && filepath.Base(filepath.Dir(path)) != "mirror":
		return eachEntry(path, x.text)
	case filepath.Base(path) == "history.json":
		return x.everything(path)
	}
	return nil
}

func (x *secretSearch) text(name string, b []byte) {
	if first, rest, _ := strings.Cut(string(b), "\n"); strings.HasPrefix(filepath.Base(name), "output-") {
		name, b = first, []byte(rest) // the first line is the command of the script
	}
	for _, s := range secretForms.FindAllString(string(b), 3) {
		i := strings.Index(string(b), s)
		x.t.Errorf("%s: contains a secret: ...%s...", name, b[max(0, i-100):min(len(b), i+len(s)+20)])
	}
}

func eachEntry(name string, f func(name string, b []byte)) error {
	z, err := zip.OpenReader(name)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, e := range z.File {
		r, err := e.Open()
		if err != nil {
			return err
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		f(e.Name, b)
	}
	return nil
}

// cmdUnzip unpacks a bundle: unzip FILE FOLDER
func cmdUnzip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: unzip FILE FOLDER")
	}
	ts.Check(eachEntry(ts.MkAbs(args[0]), func(name string, b []byte) {
		to := filepath.Join(ts.MkAbs(args[1]), filepath.FromSlash(name))
		ts.Check(os.MkdirAll(filepath.Dir(to), 0o777))
		ts.Check(os.WriteFile(to, b, 0o666))
	}))
}
