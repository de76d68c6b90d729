// Probe asks a Windows machine what the stand-ins under examples/acceptance answer by what was read, with nodejoin's
// own calls, and adds what it says to a file of evidence (../README.md):
//
//	probe -out FOLDER -commit COMMIT [-run URL] [-prefix TEXT] services|hns|shutdown|ssh ...
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// evidence is the file; its fields are described in ../README.md.
type evidence struct {
	Version  int       `json:"version"`
	Build    string    `json:"build"`
	Language string    `json:"language"`
	Edition  string    `json:"edition"`
	Commit   string    `json:"commit"`
	Time     time.Time `json:"time"`
	Run      string    `json:"run"`
	Results  []result  `json:"results"`
}

type result struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
	Seen    string `json:"seen"`
}

// answer is what the machine said to a question: as the stand-ins do, or otherwise. An
// error means that it could not be asked.
type answer struct {
	name     string
	expected bool
	seen     string
	err      error
}

func (a answer) result(prefix string) result {
	r := result{Name: prefix + a.name, Outcome: "otherwise", Seen: a.seen}
	switch {
	case a.err != nil:
		r.Outcome, r.Seen = "not asked", a.err.Error()
	case a.expected:
		r.Outcome = "as expected"
	}
	return r
}

// probe asks the questions of one area. It leaves the machine as it was.
type probe func(ctx context.Context) []answer

func main() {
	if err := probeMachine(); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func probeMachine() error {
	out := flag.String("out", "evidence", "folder of the evidence file")
	commit := flag.String("commit", "", "commit of this repository")
	run := flag.String("run", "", "address of the run")
	prefix := flag.String("prefix", "", "what the names of the answers begin with")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	e, err := machine()
	if err != nil {
		return err
	}
	e.Commit, e.Run = *commit, *run
	return ask(ctx, *out, e, *prefix, probes(), flag.Args())
}

// ask adds the answers of the named probes to the file of the machine.
func ask(ctx context.Context, folder string, e evidence, prefix string, all map[string]probe, names []string) error {
	path := filepath.Join(folder, e.Build+"-"+e.Language+".json")
	e.Version, e.Time = 1, time.Now().UTC().Truncate(time.Second)
	switch text, err := os.ReadFile(path); {
	case err == nil:
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	for _, name := range names {
		p, ok := all[name]
		if !ok {
			return fmt.Errorf("%q cannot be asked here", name)
		}
		for _, a := range p(ctx) {
			r := a.result(prefix)
			fmt.Printf("%s: %s: %s\n", r.Name, r.Outcome, r.Seen)
			e.Results = append(e.Results, r)
		}
	}
	text, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(path, append(text, '\n'), 0o644))
}
