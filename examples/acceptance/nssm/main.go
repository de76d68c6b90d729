//go:build windows

// Command nssm is a stand-in for nssm 2.24, which is C++ and not a Go module. As a service it runs the program
// that the service's parameters in the registry name, kills it when the service stops, and restarts it when it
// exits. With a parameter that nssm does not have, or has with another type, the service fails, whereas nssm
// would ignore it. Logs are not rotated.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
)

// throttle is how long a program must run until the service counts as started (nssm's AppThrottle).
const throttle = 1500 * time.Millisecond

func main() {
	// The service manager knows the name; this one is ignored.
	if err := svc.Run("nssm", handler{}); err != nil {
		log.Fatal(err)
	}
}

type handler struct{}

// Execute implements svc.Handler. args[0] is the name of the service.
func (handler) Execute(args []string, requests <-chan svc.ChangeRequest,
	status chan<- svc.Status) (specific bool, code uint32) {
	now := svc.Status{State: svc.StartPending, WaitHint: uint32(2 * throttle / time.Millisecond)}
	status <- now
	s, err := read(args[0])
	if err != nil {
		return s.failed(err)
	}
	program, err := s.start()
	if err != nil {
		return s.failed(err)
	}
	began := time.NewTimer(throttle)
	defer began.Stop()
	var again <-chan time.Time // a program that has exited is restarted then
	for {
		select {
		case <-began.C:
			now = svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
			status <- now
		case <-program.ended:
			program.ended = nil
			if s.action != "Restart" {
				return true, 1
			}
			again = time.After(s.delay)
		case <-again:
			again = nil
			if program, err = s.start(); err != nil {
				return s.failed(err)
			}
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- now
			case svc.Stop, svc.Shutdown:
				status <- svc.Status{State: svc.StopPending}
				program.end()
				return false, 0
			}
		}
	}
}

// service holds the parameters of the service.
type service struct {
	program, arguments, directory, stdout, stderr string

	environment []string
	action      string // when the program has exited by itself
	delay       time.Duration
	priority    uint32 // class of the process
}

// failed writes why the service ends to the log of its program.
func (s service) failed(err error) (specific bool, code uint32) {
	if out, openErr := appendTo(s.stderr); openErr == nil {
		fmt.Fprintln(out, "nssm:", err)
		out.Close()
	}
	return true, 1
}

// read returns what it has read even if there is an error.
func read(name string) (service, error) {
	var s service
	key := `SYSTEM\CurrentControlSet\Services\` + name
	words := map[string]*string{"Application": &s.program, "AppParameters": &s.arguments, "AppDirectory": &s.directory,
		"AppStdout": &s.stdout, "AppStderr": &s.stderr}
	numbers := map[string]uint32{"AppRotateFiles": 0, "AppRotateOnline": 0, "AppRotateSeconds": 0, "AppRotateBytes": 0,
		"AppRestartDelay": 0, "AppPriority": windows.NORMAL_PRIORITY_CLASS, "AppNoConsole": 0}
	err := values(key+`\Parameters`, func(k registry.Key, name string) error {
		if to, ok := words[name]; ok {
			text, kind, err := k.GetStringValue(name)
			if err != nil || kind != registry.EXPAND_SZ {
				*to = text
				return err
			}
			*to, err = registry.ExpandString(text)
			return err
		}
		if _, ok := numbers[name]; ok {
			n, kind, err := k.GetIntegerValue(name)
			if err == nil && kind != registry.DWORD {
				err = registry.ErrUnexpectedType
			}
			numbers[name] = uint32(n)
			return err
		}
		return errors.New("nssm has no such parameter")
	})
	if err != nil {
		return s, err
	}
	if err := values(key+`\Parameters\AppExit`, func(k registry.Key, name string) (err error) {
		if name == "" { // the others are for single exit codes
			s.action, _, err = k.GetStringValue(name)
		}
		return err
	}); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s.delay, s.priority = time.Duration(numbers["AppRestartDelay"])*time.Millisecond, numbers["AppPriority"]
	// The service manager of Windows passes this environment to a service; Wine's does not.
	err = values(key, func(k registry.Key, name string) (err error) {
		if name == "Environment" {
			s.environment, _, err = k.GetStringsValue(name)
		}
		return err
	})
	return s, err
}

// values calls f with each value of a key below HKEY_LOCAL_MACHINE.
func values(path string, f func(registry.Key, string) error) error {
	k, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer k.Close()
	names, err := k.ReadValueNames(-1)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, name := range names {
		if err := f(k, name); err != nil {
			return fmt.Errorf("%s, %q: %w", path, name, err)
		}
	}
	return nil
}

// process is a program that was started.
type process struct {
	*os.Process
	ended <-chan struct{} // closed then; nil once that was seen
}

func (s service) start() (process, error) {
	if !filepath.IsAbs(s.program) {
		return process{}, fmt.Errorf("Application is %q, no path", s.program)
	}
	stdout, err := appendTo(s.stdout)
	if err != nil {
		return process{}, err
	}
	defer stdout.Close()
	stderr := stdout
	if !strings.EqualFold(s.stderr, s.stdout) {
		if stderr, err = appendTo(s.stderr); err != nil {
			return process{}, err
		}
		defer stderr.Close()
	}
	cmd := exec.Command(s.program)
	cmd.Dir, cmd.Env = s.directory, append(os.Environ(), s.environment...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// The arguments are already one line.
	cmd.SysProcAttr = &syscall.SysProcAttr{CmdLine: `"` + s.program + `" ` + s.arguments, CreationFlags: s.priority}
	if err := cmd.Start(); err != nil {
		return process{}, err
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	return process{cmd.Process, ended}, nil
}

// end kills the program, if it still runs, and waits for it to exit.
func (p process) end() {
	if p.ended != nil {
		p.Kill()
		<-p.ended
	}
}

func appendTo(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}
