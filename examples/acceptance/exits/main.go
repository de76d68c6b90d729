// Command exits stands in for a program of a Windows machine that does not work: it ends
// as soon as it is started. It is of the version that it stands in for, or nodejoin would
// not put it there.
package main

import (
	"fmt"
	"os"
)

var version string // given by the linker

func main() {
	fmt.Fprintln(os.Stderr, "this program does not work, version", version)
	os.Exit(3)
}
