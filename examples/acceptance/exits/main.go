// Command exits is a stand-in for a Windows program that does not work: it exits as soon as it is started. It
// has the version of the program, or nodejoin would not install it.
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
