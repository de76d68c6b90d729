package steps_test

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Limits of ARCHITECTURE.md. Kinds and hosts are many small files of one form.
const (
	mostLines     = 500  // of a file
	mostCodeLines = 5000 // of a package, without tests, comments and blank lines
)

// TestSizes: files and packages can be read in one go.
func TestSizes(t *testing.T) {
	for _, dir := range packages(t) {
		files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(dir), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(text), "\n"); n > mostLines {
				t.Errorf("%s has %d lines, more than %d: split it", name, n, mostLines)
			}
			if !strings.HasSuffix(name, "_test.go") {
				sum += codeLines(text)
			}
		}
		if sum > mostCodeLines && dir != "steps/kinds" && !strings.HasPrefix(dir, "steps/host/") {
			t.Errorf("%s has %d lines of code, more than %d: move what belongs together into a package below it",
				dir, sum, mostCodeLines)
		}
	}
}

// codeLines counts the lines on which a token begins or goes on.
func codeLines(text []byte) (n int) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, text, nil, 0)
	last := 0
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return n
		}
		if tok == token.SEMICOLON && lit != ";" {
			continue // a line break
		}
		first := file.Line(pos)
		end := first + strings.Count(lit, "\n")
		n += end - max(last, first-1)
		last = max(last, end)
	}
}

// TestCodeLines: the judge of TestSizes.
func TestCodeLines(t *testing.T) {
	text := "// a\npackage a\n\n/* b\n */ var x = `1\n\n2`; var y int // c\n\nfunc f() {\n}\n"
	if n := codeLines([]byte(text)); n != 6 {
		t.Errorf("%d lines, want 6", n)
	}
}
