// Package coverage says where each thing that the documents of Kubernetes on Windows name
// is found in this repository. The list is rows.go; ../../coverage.md is made of it:
//
//	go generate ./examples/internal/coverage
package coverage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:generate go test . -run TestCurrent -update

// Row is one thing that a document names. It has proofs, or a reason why it is open.
type Row struct {
	ID   string // document and number, as in "S4-1"
	What string
	Open string // why nothing shows it yet; "" = it is shown
	// Prose is the part of it that only a document has: nodejoin neither does nor checks it; "" = none, or the whole
	// row, which has no other proofs.
	Prose string
	Proof []Proof
}

// shown says what shows a row besides documents.
func (r Row) shown() string {
	switch {
	case r.Open != "":
		return "open"
	case !slices.ContainsFunc(r.Proof, func(p Proof) bool { return p.sort != "document" }):
		return "document only"
	case r.Prose != "":
		return "in part; document only: " + r.Prose
	}
	return "yes"
}

// Proof is a place in the repository that shows a row.
type Proof struct {
	sort string
	path string // of a file or folder, from the root of the repository
	name string // what must be found there
}

// Example is a plan that does it.
func Example(name string) Proof {
	return Proof{"example", "examples/" + name + "/" + name + ".join.hcl", name}
}

// Test is a test function of the package in dir.
func Test(dir, name string) Proof { return Proof{"test", dir, name} }

// Script is a test of the program, by its name below cmd/nodejoin/testdata/script.
func Script(name string) Proof {
	return Proof{"script", "cmd/nodejoin/testdata/script/" + name + ".txtar", name}
}

// Refused is a diagnostic, by its summary, in a case of the corpus of invalid plans.
func Refused(name, summary string) Proof {
	return Proof{"diagnostic", "plan/testdata/invalid/" + name + ".txtar", summary}
}

// Warned is a warning in a case of the corpus of valid plans.
func Warned(name, summary string) Proof {
	return Proof{"diagnostic", "plan/testdata/valid/" + name + ".txtar", summary}
}

// Compiled is a case of the corpus of valid plans, with what becomes of it.
func Compiled(name string) Proof {
	return Proof{"case", "plan/testdata/valid/" + name + ".txtar", name}
}

// Finding is one of the preflight or of the doctor, by its id.
func Finding(id string) Proof { return Proof{"finding", "examples/language.md", id} }

// Doc is a chapter of a document.
func Doc(file, heading string) Proof { return Proof{"document", file, heading} }

// Check returns why the proof does not exist, nil if it does. root is the repository.
func (p Proof) Check(root string) error {
	at := filepath.Join(root, filepath.FromSlash(p.path))
	switch p.sort {
	case "test":
		files, err := filepath.Glob(filepath.Join(at, "*_test.go"))
		if err != nil {
			return err
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			if regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(p.name) + `\(`).Match(text) {
				return nil
			}
		}
		return fmt.Errorf("%s has no test %s", p.path, p.name)
	case "example", "script", "case":
		if _, err := os.Stat(at); err != nil {
			return err
		}
		return nil
	}
	text, err := os.ReadFile(at)
	if err != nil {
		return err
	}
	want := map[string]string{
		"diagnostic": `(?m)^\S+: (error|warning): ` + regexp.QuoteMeta(p.name) + `:`,
		"finding":    "(?m)^\\| `" + regexp.QuoteMeta(p.name) + "` \\|",
		"document":   `(?m)^#+ ` + regexp.QuoteMeta(p.name) + `$`,
	}[p.sort]
	if !regexp.MustCompile(want).Match(text) {
		return fmt.Errorf("%s has no %s %q", p.path, p.sort, p.name)
	}
	return nil
}

// Check returns what is wrong with a row: it has neither proof nor reason, both, or a proof that is none.
func (r Row) Check(root string) error {
	var all []error
	for _, p := range r.Proof {
		all = append(all, p.Check(root))
	}
	if (len(r.Proof) == 0) == (r.Open == "") {
		all = append(all, errors.New("a row has proofs, or is open with a reason"))
	}
	if err := errors.Join(all...); err != nil {
		return fmt.Errorf("%s, %s: %w", r.ID, r.What, err)
	}
	return nil
}

// link is the proof in Markdown, in a document of the folder examples.
func (p Proof) link() string {
	to := "../" + p.path
	if rest, ok := strings.CutPrefix(p.path, "examples/"); ok {
		to = rest
	}
	switch p.sort {
	case "finding":
		return "[finding `" + p.name + "`](" + to + "#findings)"
	case "document":
		return "[" + strings.TrimSuffix(path.Base(p.path), ".md") + ": " + p.name + "](" + to + "#" + anchor(p.name) + ")"
	case "test":
		return "[" + p.name + "](" + to + ")"
	case "diagnostic":
		return "[\"" + p.name + "\"](" + to + ")"
	}
	return "[" + p.sort + " " + p.name + "](" + to + ")"
}

// anchor is what GitHub makes of a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127:
			return r
		}
		return -1
	}, strings.ToLower(heading))
}

// Open are the ids of the rows that nothing shows yet.
func Open() (ids []string) {
	for _, d := range Documents {
		for _, r := range d.Rows {
			if r.Open != "" {
				ids = append(ids, r.ID)
			}
		}
	}
	return ids
}

// Markdown is coverage.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# What the documents name, and where it is here

Made of ` + "`internal/coverage/rows.go`" + ` by ` + "`go generate ./examples/internal/coverage`" +
		"; do not edit. A test fails for a row whose proof does not exist.\n\n")
	by := map[string][]string{}
	total := 0
	for _, d := range Documents {
		for _, r := range d.Rows {
			total++
			sort, _, _ := strings.Cut(r.shown(), ";")
			by[sort] = append(by[sort], r.ID)
		}
	}
	part, only := by["in part"], by["document only"]
	fmt.Fprintf(&b, "Of %d rows %d are shown by a test, an example, a diagnostic or a finding, %d of them in part "+
		"(%s). %d are document only (%s): a page explains them, and nodejoin neither does nor checks them.", total,
		len(by["yes"])+len(part), len(part), strings.Join(part, ", "), len(only), strings.Join(only, ", "))
	if open := by["open"]; len(open) > 0 {
		fmt.Fprintf(&b, " Open are %s.", strings.Join(open, ", "))
	}
	b.WriteString("\n")
	for _, d := range Documents {
		fmt.Fprintf(&b, "\n## %s\n\n| row | what | shown | where |\n|---|---|---|---|\n", d.Title)
		for _, r := range d.Rows {
			where := "**open**: " + r.Open
			if r.Open == "" {
				var links []string
				for _, p := range r.Proof {
					links = append(links, p.link())
				}
				where = strings.Join(slices.Compact(links), ", ")
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.ID, r.What, r.shown(), where)
		}
	}
	return b.String()
}

// Root is the repository that dir lies in.
func Root(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		_, err := os.Stat(filepath.Join(at, "go.mod"))
		switch {
		case err == nil:
			return at, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		case at == filepath.Dir(at):
			return "", fmt.Errorf("%s lies in no module", dir)
		}
	}
}
