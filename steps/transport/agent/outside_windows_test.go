package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

const outsideArg = "NODEJOIN_TEST_OUTSIDE"

// TestOutside: where the job of a shell lets processes out, its end does not kill the program, whose input ends; else
// nothing is started.
func TestOutside(t *testing.T) {
	switch mode, file, _ := strings.Cut(os.Getenv(outsideArg), " "); mode {
	case "":
	case "step":
		fmt.Println("begun")
		_, _ = io.Copy(io.Discard, os.Stdin)
		time.Sleep(time.Second) // the rest of the step
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			os.Exit(1)
		}
		os.Exit(7)
	default:
		inShell(mode == "open")
		_ = os.Setenv(outsideArg, "step "+file)
		code, err := Outside(os.Args[1:]...)
		if errors.Is(err, ErrInside) {
			code = 5
		}
		os.Exit(code)
	}
	for name, tt := range map[string]struct {
		job  string
		kill bool
		code int
	}{
		"killed": {"open", true, 1}, "ends": {"open", false, 7}, "closed": {"closed", false, 5},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "finished")
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOutside$")
			cmd.Env = append(os.Environ(), outsideArg+"="+tt.job+" "+file)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if b := make([]byte, 5); tt.job == "open" {
				if _, err := io.ReadFull(out, b); string(b) != "begun" {
					t.Fatalf("it printed %q: %v", b, err)
				}
			}
			if tt.kill {
				err = cmd.Process.Kill()
			} else {
				err = in.Close()
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); err != nil || code != tt.code {
				t.Errorf("%v, exit code %d, want %d", err, code, tt.code)
			}
			for end := time.Now().Add(20 * time.Second); tt.job == "open"; time.Sleep(50 * time.Millisecond) {
				if _, err := os.Stat(file); err == nil {
					break
				}
				if time.Now().After(end) {
					t.Fatal("the step is not finished after 20s")
				}
			}
		})
	}
}

// inShell puts this process into a job as that of a WinRM shell, which ends with it; open = it lets processes out.
func inShell(open bool) {
	job, err := windows.CreateJobObject(nil, nil)
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if open {
		limits.BasicLimitInformation.LimitFlags |= windows.JOB_OBJECT_LIMIT_BREAKAWAY_OK
	}
	if err == nil {
		_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
			uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	}
	if err == nil {
		err = windows.AssignProcessToJobObject(job, windows.CurrentProcess())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(9)
	}
}
