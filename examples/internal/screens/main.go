// Command screens takes the pictures of the pages: it builds nodejoin, runs it in terminals of three sizes against
// sandboxes, and writes what the screens show into ../../screens, as text and as SVG, with a page of all of them.
//
//	go run ./examples/internal/screens
//
// A file is written only where more differs than times, rates and names of the machine (compare.go).
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// size is a terminal's, in columns and lines.
type size struct{ width, height int }

func (s size) String() string { return fmt.Sprint(s.width) }

// sizes are a small window, the usual one, and a large one.
var sizes = []size{{60, 24}, {80, 24}, {120, 40}}

func main() {
	repository := flag.String("repository", ".", "folder of the repository")
	flag.Parse()
	if err := run(*repository, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "screens:", err)
		os.Exit(1)
	}
}

func run(repository string, out io.Writer) error {
	tmp, err := os.MkdirTemp("", "screens")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	files, err := take(context.Background(), repository, tmp, sizes)
	if err != nil {
		return err
	}
	folder := filepath.Join(repository, "examples", "screens")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		file := filepath.Join(folder, f.name)
		old, err := os.ReadFile(file)
		if err == nil && plain(f.name, string(old)) == plain(f.name, f.text) {
			continue
		}
		if err := os.WriteFile(file, []byte(f.text), 0o644); err != nil {
			return err
		}
		fmt.Fprintln(out, "written:", file)
	}
	return nil
}

// readme is the picture of ../../../README.md: the first lines of the first apply, and what that scene shows.
const readme = "readme"

// stored is a file of ../../screens.
type stored struct{ name, text string }

// build builds the program in a folder.
func build(ctx context.Context, repository, folder string) (program string, err error) {
	program, err = filepath.Abs(filepath.Join(folder, "nodejoin"))
	if err != nil {
		return "", err
	}
	c := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/nodejoin")
	c.Dir = repository
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program, nil
}

// take builds the program, plays the scenes at these sizes, and returns the files in their order.
func take(ctx context.Context, repository, tmp string, sizes []size) ([]stored, error) {
	program, err := build(ctx, repository, tmp)
	if err != nil {
		return nil, err
	}
	taken := make([][]shot, len(sizes))
	errs := make([]error, len(sizes))
	var all sync.WaitGroup
	for i, s := range sizes {
		all.Go(func() {
			w, err := newWorld(filepath.Join(tmp, s.String()), repository, program, s)
			if err == nil {
				taken[i], err = w.play(ctx)
			}
			errs[i] = err
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("%d columns: %w", sizes[i].width, err)
		}
	}
	var files []stored
	for i, shots := range taken {
		for _, s := range shots {
			name := s.scene + "-" + sizes[i].String()
			if s.scene == readme {
				name = readme
				if sizes[i].width != 80 {
					continue
				}
			}
			files = append(files, stored{name + ".txt", text(s.lines)}, stored{name + ".svg", svg(s.title(), s.lines)})
		}
	}
	return append(files, stored{"README.md", page()}), nil
}
