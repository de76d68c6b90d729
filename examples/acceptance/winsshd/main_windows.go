package main

import (
	"errors"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

// serviceName is the one that Microsoft's server has.
const serviceName = "sshd"

// main runs the server: as the service, or registers and starts the service with the other arguments ("-install").
// With "-session" it does nothing until it is killed: Wine ends its services with the last program that is none.
func main() {
	program, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	if len(os.Args) > 1 && os.Args[1] == "-install" {
		if err := install(program, os.Args[2:]); err != nil {
			log.Fatal(err)
		}
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "-session" {
		for {
			time.Sleep(time.Hour)
		}
	}
	// A login begins in the same folder whatever started the server: the user's for the one that a capability installs.
	start := filepath.Dir(program)
	if len(os.Args) == 1 {
		start = `C:\users\Administrator`
	}
	if err := errors.Join(os.MkdirAll(start, 0o755), os.Chdir(start)); err != nil {
		log.Fatal(err)
	}
	if service, err := svc.IsWindowsService(); err != nil {
		log.Fatal(err)
	} else if service {
		if err := svc.Run(serviceName, handler{}); err != nil {
			log.Fatal(err)
		}
		return
	}
	run()
}

// install registers the service, to start with the machine, and starts it. Its rule of the firewall is for the port of
// the argument -listen.
func install(program string, args []string) error {
	for i, arg := range args {
		if arg != "-listen" || i+1 == len(args) {
			continue
		}
		_, port, err := net.SplitHostPort(args[i+1])
		if err == nil {
			err = addRule(port)
		}
		if err != nil {
			return err
		}
	}
	m, err := mgr.Connect()
	if err != nil {
		return err
	}
	defer m.Disconnect()
	s, err := m.CreateService(serviceName, program, mgr.Config{StartType: mgr.StartAutomatic,
		DisplayName: "OpenSSH SSH Server"}, args...)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Start()
}

type handler struct{}

// Execute serves until the service is stopped, and ends the process then.
func (handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	go run()
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for r := range requests {
		switch r.Cmd {
		case svc.Interrogate:
			status <- r.CurrentStatus
		case svc.Stop, svc.Shutdown:
			return false, 0
		}
	}
	return false, 0
}
