// Command exits stands in for a program of a Windows machine that does not work: it ends
// as soon as it is started.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "this program does not work")
	os.Exit(3)
}
