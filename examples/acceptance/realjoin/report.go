package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// result is one of a file of evidence (examples/evidence/README.md).
type result struct {
	Area    string `json:"area"`
	Name    string `json:"name"`
	Claim   int    `json:"claim,omitempty"`
	Outcome string `json:"outcome"`
	Seen    string `json:"seen"`
}

const (
	asExpected = "as expected"
	otherwise  = "otherwise"
)

// report adds the results to a file in which nodejoin's self-test says what machine it is.
func (j *join) report(ctx context.Context) error {
	folder := filepath.Join(j.dir, "evidence")
	// What the machine says of itself counts even if it is not as expected.
	if _, _, err := j.nodejoin(ctx, "doctor", "--self-test=machine", "--yes-change-this-machine",
		"-o", folder); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return err
	}
	if len(files) != 1 {
		return fmt.Errorf("the self-test wrote %d files of evidence, not one", len(files))
	}
	file := filepath.Join(j.evidence, strings.TrimSuffix(filepath.Base(files[0]), ".json")+"-join.json")
	failed, err := addTo(files[0], file, j.run, j.results)
	if err != nil {
		return err
	}
	fmt.Println("evidence:", file)
	if failed > 0 {
		return fmt.Errorf("%d of %d answers are otherwise than expected", failed, len(j.results))
	}
	return nil
}

// addTo writes file, with more results, to another place, and counts those that are otherwise than expected.
func addTo(file, to, run string, more []result) (failed int, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	var report map[string]json.RawMessage
	if err := json.Unmarshal(text, &report); err != nil {
		return 0, err
	}
	var results []result
	if err := json.Unmarshal(report["results"], &results); err != nil {
		return 0, err
	}
	for _, r := range more {
		if r.Outcome != asExpected {
			failed++
		}
	}
	if report["results"], err = json.Marshal(append(results, more...)); err != nil {
		return 0, err
	}
	if report["run"], err = json.Marshal(run); err != nil {
		return 0, err
	}
	if text, err = json.MarshalIndent(report, "", "  "); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return 0, err
	}
	return failed, os.WriteFile(to, append(text, '\n'), 0o644)
}
