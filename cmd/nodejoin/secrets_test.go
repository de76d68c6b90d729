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

// What a script's plan has for a secret begins with this; it must appear in nothing that
// nodejoin prints or keeps on the controller. So must nothing that has the form of a
// token or a private key, which a run mints.
var secretForms = regexp.MustCompile(`S3CR3T[-_A-Za-z0-9]*|\b[a-z0-9]{6}\.[a-z0-9]{16}\b|` +
	`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.|-----BEGIN [A-Z ]*PRIVATE KEY-----`)

// seenEnv names the folder in which mainSeen keeps what a process prints.
const seenEnv = "NODEJOIN_TEST_SEEN"

// mainSeen is main, with a copy of what it prints in a file. A terminal it leaves alone.
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

// seen writes to both; the copy is there before the output is.
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

// seeSecrets has every script end with a search: in all that its processes printed, in
// their history, in bundles, and in the notes on simulated machines.
func seeSecrets(e *testscript.Env) error {
	dir, err := os.MkdirTemp("", "nodejoin-seen-")
	if err != nil {
		return err
	}
	e.Vars = append(e.Vars, seenEnv+"="+dir)
	t := e.T().(interface{ Errorf(string, ...any) })
	e.Defer(func() {
		defer os.RemoveAll(dir)
		look := func(name string, b []byte) {
			if first, rest, _ := strings.Cut(string(b), "\n"); strings.HasPrefix(filepath.Base(name), "output-") {
				name, b = first, []byte(rest) // what it was called with is the script's
			}
			for _, s := range secretForms.FindAllString(string(b), 3) {
				i := strings.Index(string(b), s)
				t.Errorf("%s: a secret is in it: ...%s...", name, b[max(0, i-100):min(len(b), i+len(s)+20)])
			}
		}
		for _, root := range []string{dir, filepath.Join(e.WorkDir, ".local", "state")} {
			_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					if b, err := os.ReadFile(p); err != nil {
						t.Errorf("%v", err)
					} else {
						look(p, b)
					}
				}
				return nil
			})
		}
		_ = filepath.WalkDir(e.WorkDir, func(p string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || !d.Type().IsRegular():
			case filepath.Ext(p) == ".zip" && filepath.Base(filepath.Dir(p)) != "mirror":
				err := eachEntry(p, look)
				if err != nil {
					t.Errorf("%s: %v", p, err)
				}
			case d.Name() == "history.json":
				if b, err := os.ReadFile(p); err == nil {
					look(p, b)
				}
			}
			return nil
		})
	})
	return nil
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
