// Package proof says what has been seen on real Windows: the part of ../../proof.md that is made of
// ../../evidence/*.json, and the claims about Windows that a file there can prove.
//
//	go generate ./examples/internal/proof
package proof

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"nodejoin/steps/selftest"
)

//go:generate go test . -run TestCurrent -update

// Evidence is one file of ../../evidence.
type Evidence struct {
	File string // its name
	selftest.Report
}

// Load reads the files of evidence in a folder, sorted by name. It returns what is wrong with one as an error.
func Load(folder fs.FS) ([]Evidence, error) {
	names, err := fs.Glob(folder, "*.json")
	if err != nil {
		return nil, err
	}
	var out []Evidence
	for _, name := range names {
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		e := Evidence{File: name}
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&e.Report); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// Join is the area of what examples/acceptance/realjoin asks of a machine that it joins to a cluster.
const Join = "join"

// address of a run: it is written into a page.
var address = regexp.MustCompile(`^(https://[A-Za-z0-9./_-]+)?$`)

func (e Evidence) check() error {
	switch stem := strings.TrimSuffix(e.FileName(""), ".json"); {
	case e.Version != selftest.Version:
		return fmt.Errorf("version %d, not %d", e.Version, selftest.Version)
	case e.Build == "" || e.Language == "" || e.Edition == "" || e.Nodejoin == "" || e.Time.IsZero():
		return errors.New("build, language, edition, nodejoin or time is missing")
	case e.File != stem+".json" && !strings.HasPrefix(e.File, stem+"-"):
		return fmt.Errorf("its name does not begin with %s", stem)
	case len(e.Results) == 0:
		return errors.New("it has no results")
	case e.AsBefore != (len(e.Differs) == 0):
		return errors.New("as_before and differs contradict each other")
	case !address.MatchString(e.Run):
		return fmt.Errorf("run is %q, not the address of a run", e.Run)
	}
	for _, r := range e.Results {
		switch {
		case !slices.Contains(selftest.Outcomes, r.Outcome):
			return fmt.Errorf("%s: %s: the outcome %q", r.Area, r.Name, r.Outcome)
		case !slices.Contains(append(selftest.Areas(), Join), r.Area) || r.Name == "":
			return fmt.Errorf("a result of the area %q named %q", r.Area, r.Name)
		case r.Claim < 0 || r.Claim > len(Claims):
			return fmt.Errorf("%s: %s: there is no claim %d", r.Area, r.Name, r.Claim)
		}
	}
	return nil
}

// Begin and End enclose the generated part of the page.
const (
	Begin = "<!-- made of evidence/*.json by: go generate ./examples/internal/proof -->\n"
	End   = "<!-- end of what is made of evidence -->\n"
)

// Replace puts the generated part into the page.
func Replace(page string, list []Evidence) (string, error) {
	before, rest, ok := strings.Cut(page, Begin)
	_, after, ended := strings.Cut(rest, End)
	if !ok || !ended {
		return "", errors.New("the page does not have the lines that enclose the generated part")
	}
	return before + Begin + Markdown(list) + End + after, nil
}

// Markdown is the generated part.
func Markdown(list []Evidence) string {
	var b strings.Builder
	b.WriteString("\n## Seen on real Windows\n\n")
	if len(list) == 0 {
		b.WriteString("Nothing yet: there is no file of evidence. [How to add one](evidence/README.md).\n")
	} else {
		b.WriteString("| machine | file | nodejoin | as expected | otherwise | not asked | left as it was |\n" +
			"|---|---|---|---|---|---|---|\n")
		for _, e := range list {
			file := fmt.Sprintf("[%s](%s)", e.File, path.Join("evidence", e.File))
			if e.Run != "" {
				file += fmt.Sprintf(", [run](%s)", e.Run)
			}
			left := "yes"
			if !e.AsBefore {
				left = "**no**"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %d | %s |\n", cell(e.Edition+", "+e.Build+", "+e.Language), file,
				cell(e.Nodejoin), e.Count(selftest.AsExpected), e.Count(selftest.Otherwise), e.Count(selftest.NotAsked), left)
		}
		b.WriteString("\n[How to add one](evidence/README.md).\n")
	}
	b.WriteString("\nnodejoin rests on these claims about Windows, read from sources. " +
		"Tests hold them against stand-ins; an area of\n`nodejoin doctor --self-test` asks a machine.\n\n" +
		"| | claim | tests | self-test | seen |\n|---|---|---|---|---|\n")
	for i, c := range Claims {
		tests, area := strings.Join(c.Tests, ", "), "`"+c.SelfTest+"`"
		if tests == "" {
			tests = "none"
		}
		if c.SelfTest == "" {
			area = "none: " + c.Why
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s |\n", i+1, c.What, tests, area, seen(list, i+1))
	}
	b.WriteString("\n")
	return b.String()
}

// seen says on which machines a claim was asked, and with which outcome.
func seen(list []Evidence, claim int) string {
	var out []string
	for _, e := range list {
		for _, outcome := range []string{selftest.Otherwise, selftest.AsExpected} {
			n := 0
			for _, r := range e.Results {
				if r.Claim == claim && r.Outcome == outcome {
					n++
				}
			}
			if n > 0 {
				out = append(out, fmt.Sprintf("%s %s: %d %s", cell(e.Build), cell(e.Language), n, outcome))
			}
		}
	}
	if len(out) == 0 {
		return "not yet"
	}
	return strings.Join(out, "; ")
}

// cell makes text from a machine one that can stand in a table.
func cell(text string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("|<>[]`\\\n\r", r) || r < ' ' {
			return ' '
		}
		return r
	}, text)
}
