package selftest

import (
	"os"
	"time"

	"golang.org/x/sys/windows/svc"
)

// serviceLimit ends a service that nobody stops.
const serviceLimit = 10 * time.Minute

// thisProgram is the command of a service that is this program.
func thisProgram() ([]string, error) {
	path, err := os.Executable()
	return []string{path, ServiceCommand}, err
}

// Service is a service that does nothing until it is stopped. It returns the exit code of the program.
func Service() int {
	if err := svc.Run(ownName, idle{}); err != nil {
		return 1
	}
	return 0
}

type idle struct{}

// Execute implements svc.Handler.
func (idle) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	now := svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	status <- now
	limit := time.NewTimer(serviceLimit)
	defer limit.Stop()
	for {
		select {
		case <-limit.C:
			return false, 0
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- now
			case svc.Stop, svc.Shutdown:
				return false, 0
			}
		}
	}
}
