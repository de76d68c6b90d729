// Package history records on the controller what runs did: a folder for each plan, with
// a file for each run. A file has one JSON value per line: the Head, an Entry for each
// event as it happens, and the End. A file without an End is of a run that did not end.
//
// Events have no secrets; the files are readable only by their owner all the same.
package history

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
)

const (
	// Keep is how many runs of a plan are kept; older ones are deleted.
	Keep = 100
	// maxFile is the size, in bytes, from which on a file takes no more events.
	maxFile = 8 << 20
)

// Head is the first line of a run.
type Head struct {
	Holder  steps.LockHolder `json:"holder"`
	Version string           `json:"version"` // of nodejoin
	Plan    string           `json:"plan"`    // absolute path
	Digest  string           `json:"digest"`  // "sha256:..." of the plan's files
	Nodes   []string         `json:"nodes"`
	// File is the plan's file, if one was named and not its folder.
	File string `json:"file,omitempty"`
	// Environment is the one of --env; "" = none.
	Environment string `json:"environment,omitempty"`
	// Vars are the names of the variables that --var set, and VarFiles the files of --var-file.
	Vars     []string `json:"vars,omitempty"`
	VarFiles []string `json:"var_files,omitempty"`
}

// Entry is an event and its time.
type Entry struct {
	At    time.Time       `json:"at"`
	Event json.RawMessage `json:"event"`
}

// End is the last line of a run.
type End struct {
	Ended    time.Time `json:"ended"`
	ExitCode int       `json:"exit_code"`
	Hosts    []Host    `json:"hosts"`
	Cut      bool      `json:"cut,omitempty"` // some events are missing
}

// Host is the result of a run on one host.
type Host struct {
	Node      string   `json:"node"`
	Changed   []string `json:"changed"` // step ids
	Unchanged int      `json:"unchanged"`
	Left      int      `json:"left"` // steps for the next run
	Failed    string   `json:"failed,omitempty"`
	Error     string   `json:"error,omitempty"`
}

// Running is the result of a run that has not ended.
const Running = "running"

// Run is a recorded run.
type Run struct {
	Head   Head
	Events []Entry
	End    *End // nil: it did not end, or is running
}

// Called is the plan in a word: its file, or the last part of its folder's path; with its environment, if it has one.
func (h Head) Called() string {
	name := cmp.Or(h.File, filepath.Base(h.Plan))
	if h.Environment != "" {
		name += " --env " + h.Environment
	}
	return name
}

// With is what the plan got besides its text: names of variables, and of files with values.
func (h Head) With() string { return strings.Join(slices.Concat(h.Vars, h.VarFiles), ", ") }

// Continue is the command that continues a leave that failed or did not end; "" = there is nothing to continue.
func (r Run) Continue() string {
	if r.Head.Holder.Command != "leave" {
		return ""
	}
	nodes := r.Head.Nodes
	if r.End != nil {
		nodes = nil
		for _, h := range r.End.Hosts {
			if h.Error != "" {
				nodes = append(nodes, h.Node)
			}
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	command := "nodejoin leave "
	if r.Head.Environment != "" {
		command += "--env " + r.Head.Environment + " "
	}
	return command + strings.Join(append([]string{cmp.Or(r.Head.File, r.Head.Plan)}, nodes...), " --target ")
}

// Root is the folder of all plans: $XDG_STATE_HOME/nodejoin/history, by default below
// ~/.local/state (XDG Base Directory Specification); on Windows below %LocalAppData%.
func Root() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "nodejoin", "history"), nil
	}
	if runtime.GOOS == "windows" {
		dir, err := os.UserCacheDir()
		return filepath.Join(dir, "nodejoin", "history"), err
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "nodejoin", "history"), err
}

// In is the folder of all plans that is given; "" = Root.
func In(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	return Root()
}

// Dir is the folder of the plan at an absolute path, in an environment ("" = none): the last element of the path, for
// people, and a digest of the whole path. The runs of an environment have a folder of their own in it, so that many
// runs of one push out none of another.
func Dir(root, plan, environment string) string {
	sum := sha256.Sum256([]byte(plan))
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, filepath.Base(plan))
	return filepath.Join(root, name+"-"+hex.EncodeToString(sum[:6]), environment)
}

var runPattern = regexp.MustCompile(`^[0-9]{8}-[0-9]{6}-[A-Z2-7]{6}$`)

// IsRun reports whether s has the form of a run's name.
func IsRun(s string) bool { return runPattern.MatchString(s) }

const suffix = ".jsonl"

// Writer records a run. It is not safe for concurrent use. A nil Writer does nothing.
// Errors are returned once, by Finish.
type Writer struct {
	file *os.File
	size int
	cut  bool
	err  error
}

// Begin makes the file of a run, and deletes the oldest files of its plan.
func Begin(root string, h Head) (*Writer, error) {
	if !IsRun(h.Holder.Run) {
		return nil, fmt.Errorf("history: %q is not the name of a run", h.Holder.Run)
	}
	dir := Dir(root, h.Plan, h.Environment)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	names, err := list(dir)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	for _, name := range names[:max(0, len(names)-Keep+1)] {
		if err := os.Remove(filepath.Join(dir, name+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("history: %w", err)
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, h.Holder.Run+suffix), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	w := &Writer{file: f}
	w.line(h)
	return w, nil
}

func (w *Writer) line(v any) {
	if w.err != nil {
		return
	}
	b, err := json.Marshal(v)
	if err == nil {
		_, err = w.file.Write(append(b, '\n'))
	}
	w.size += len(b) + 1
	w.err = err
}

// Emit records an event. Of progress it records what a step waits for, not byte counts.
func (w *Writer) Emit(e event.Event) {
	if w == nil || w.err != nil {
		return
	}
	if p, ok := e.(event.StepProgress); ok && (p.Note == "" || p.Total > 0) {
		return
	}
	if w.size > maxFile {
		w.cut = true
		return
	}
	b, err := event.Encode(e)
	if err != nil {
		w.err = err
		return
	}
	w.line(Entry{At: time.Now().UTC(), Event: b})
}

// Finish writes the End. It returns the first error of all writes.
func (w *Writer) Finish(e End) error {
	if w == nil {
		return nil
	}
	e.Ended, e.Cut = time.Now().UTC(), w.cut
	w.line(e)
	if err := errors.Join(w.err, w.file.Close()); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

// list returns the names of the runs in dir, oldest first; none if there is no dir.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok && IsRun(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names) // a name starts with its time
	return names, nil
}

// AllRuns returns the recorded runs of the plan in all environments and in none, oldest first.
func AllRuns(root, plan string) ([]Run, error) {
	out, err := Runs(root, plan, "")
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(Dir(root, plan, ""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		more, err := Runs(root, plan, e.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	slices.SortStableFunc(out, func(a, b Run) int { return strings.Compare(a.Head.Holder.Run, b.Head.Holder.Run) })
	return out, nil
}

// Runs returns the recorded runs of the plan in an environment, oldest first; "" = those in none.
func Runs(root, plan, environment string) ([]Run, error) {
	dir := Dir(root, plan, environment)
	names, err := list(dir)
	if err != nil {
		return nil, err
	}
	var out []Run
	for _, name := range names {
		r, err := read(filepath.Join(dir, name+suffix))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// Newest returns the newest runs of all plans, at most as many as most, newest first.
func Newest(root string, most int) ([]Run, error) {
	files, err := glob(root, "*"+suffix)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Compare(filepath.Base(b), filepath.Base(a)) })
	var out []Run
	for _, f := range files {
		if len(out) == most {
			break
		}
		if !IsRun(strings.TrimSuffix(filepath.Base(f), suffix)) {
			continue
		}
		r, err := read(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// Find returns the run with this name, of any plan. If there is none, the error is
// fs.ErrNotExist.
func Find(root, run string) (Run, error) {
	if !IsRun(run) {
		return Run{}, fmt.Errorf("%q is not the name of a run", run)
	}
	found, err := glob(root, run+suffix)
	if err != nil {
		return Run{}, err
	}
	if len(found) == 0 {
		return Run{}, fs.ErrNotExist
	}
	return read(found[0])
}

// glob finds the files of runs of all plans and environments.
func glob(root, name string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(escape(root), "*", name))
	if err != nil {
		return nil, err
	}
	more, err := filepath.Glob(filepath.Join(escape(root), "*", "*", name))
	return append(files, more...), err
}

// escape makes a folder's name safe for filepath.Glob.
func escape(dir string) string {
	if runtime.GOOS == "windows" {
		return dir // patterns have no escape there, and names no '*' and '?'
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// read reads a run. It ignores a last line that was not completely written.
func read(path string) (Run, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Run{}, err
	}
	var r Run
	s := bufio.NewScanner(bytes.NewReader(b))
	s.Buffer(nil, maxFile*2)
	for first := true; s.Scan(); first = false {
		if first {
			if err := json.Unmarshal(s.Bytes(), &r.Head); err != nil {
				return Run{}, fmt.Errorf("%s is damaged: %w", path, err)
			}
			continue
		}
		var l struct {
			Entry
			*End
		}
		if json.Unmarshal(s.Bytes(), &l) != nil {
			continue
		}
		if l.End != nil {
			r.End = l.End
		} else {
			r.Events = append(r.Events, l.Entry)
		}
	}
	return r, s.Err()
}
