package ui

import (
	"fmt"
	"time"

	"nodejoin/steps/engine"
)

// lateCredentials returns a line for each credential of the hosts that should have been renewed by now, or has ended.
func lateCredentials(hosts []engine.HostReport, now time.Time) (out []string) {
	for _, h := range hosts {
		for _, c := range h.Credentials {
			verb := "ends"
			switch {
			case !now.Before(c.Ends):
				verb = "ended"
			case now.Before(c.Late):
				continue
			}
			out = append(out, CleanLine(fmt.Sprintf("credentials of %s: the %s in %s %s at %s", h.Node.Name, c.What, c.Path,
				verb, c.Ends.UTC().Format(minutes))))
		}
	}
	return out
}
