package hosttest

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// takeEnv has a number of bytes: the program allocates that much memory and ends.
const takeEnv = "NODEJOIN_TEST_TAKE"

func TestMain(m *testing.M) {
	if text := os.Getenv(takeEnv); text != "" {
		n, _ := strconv.Atoi(text)
		b := touch(n)
		time.Sleep(200 * time.Millisecond) // PeakMemory looks each millisecond
		runtime.KeepAlive(b)
		os.Exit(0)
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
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), takeEnv+"="+strconv.Itoa(takes))
		have, err := PeakMemory(cmd)
		if err != nil || have < takes || have > takes+60<<20 {
			t.Errorf("a program that allocates %d bytes used %d, %v", takes, have, err)
		}
	}
	runtime.KeepAlive(ours)
}
