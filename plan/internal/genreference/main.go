// Command genreference writes the reference of the plan language. It runs in the
// folder of plan: `go generate ./plan`.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	text, err := Reference(".")
	if err == nil {
		err = os.WriteFile(filepath.Join("..", "examples", "language.md"), []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "write the reference:", err)
		os.Exit(1)
	}
}
