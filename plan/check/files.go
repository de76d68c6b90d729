package check

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// maxFile is the largest file that is checked, in bytes.
const maxFile = 16 << 20

// ReadFiles reads manifests; the name - is stdin. A file named twice, and an empty one, are mistakes: an
// empty standard input means that the program before it in the pipe has failed.
func ReadFiles(names []string, stdin io.Reader) ([]File, error) {
	var out []File
	visited := map[string]bool{}
	for _, name := range names {
		if visited[name] {
			return nil, fmt.Errorf("%s is named twice", name)
		}
		visited[name] = true
		f, err := readFile(name, stdin)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func readFile(name string, stdin io.Reader) (File, error) {
	shown, in := name, stdin
	if name == "-" {
		shown = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return File{}, err
		}
		defer func() { _ = f.Close() }() // it is only read
		fi, err := f.Stat()
		if err != nil {
			return File{}, err
		}
		if fi.IsDir() {
			return File{}, fmt.Errorf("%s is a folder; name its files", name)
		}
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	switch {
	case err != nil:
		return File{}, fmt.Errorf("%s: %w", shown, err)
	case len(b) > maxFile:
		return File{}, fmt.Errorf("%s is larger than %d bytes", shown, maxFile)
	case strings.TrimSpace(string(b)) == "":
		return File{}, fmt.Errorf("%s is empty", shown)
	}
	return File{Name: shown, Data: b}, nil
}
