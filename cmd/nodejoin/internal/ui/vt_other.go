//go:build !windows

package ui

import "os"

// takesSequences reports whether escape sequences work on f.
func takesSequences(*os.File) bool { return true }
