package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// takeCommand before a number of bytes makes the program allocate that much memory.
const takeCommand = "take"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case measureCommand:
			if err := measure(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case takeCommand:
			n, _ := strconv.Atoi(os.Args[2])
			b := touch(n)
			time.Sleep(200 * time.Millisecond) // peak looks each millisecond
			runtime.KeepAlive(b)
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// touch allocates n bytes and writes to each page.
func touch(n int) (b []byte) {
	b = make([]byte, n)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return b
}

// TestPeakIsOfTheProgram: the memory of this process does not count as memory of the program that it measures.
func TestPeakIsOfTheProgram(t *testing.T) {
	ours := touch(300 << 20)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, takes := range []int{1 << 20, 100 << 20} {
		have, err := peak(t.Context(), self, takeCommand, strconv.Itoa(takes))
		if err != nil || have < takes || have > takes+60<<20 {
			t.Errorf("a program that allocates %d bytes used %d, %v", takes, have, err)
		}
	}
	_ = ours[0]
}
