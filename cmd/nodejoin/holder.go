package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/user"
	"time"

	"nodejoin/steps"
)

// hold names this process as the one that changes hosts.
func (a *app) hold(command string) {
	now := time.Now().UTC().Truncate(time.Second)
	a.holder = steps.Holder{Run: now.Format("20060102-150405-") + rand.Text()[:6], User: "an unknown user", Host: "an unknown machine", PID: os.Getpid(), Since: now, Command: command}
	if u, err := user.Current(); err == nil {
		a.holder.User = u.Username
	}
	if name, err := os.Hostname(); err == nil {
		a.holder.Host = name
	}
}

// gone tells that a holder was a process of this computer that runs no more. A
// process that has its number by now counts as it: then the lock is believed.
func gone(h steps.Holder) bool {
	name, err := os.Hostname()
	return err == nil && h.Host == name && h.PID > 0 && h.PID != os.Getpid() && !processRuns(h.PID)
}

// holderNote is a holder as an annotation: "HOST PID".
func holderNote(host string, pid int) string { return fmt.Sprintf("%s %d", host, pid) }

// holderGone is gone for a holderNote. What is no such note is nobody's who is gone.
func holderGone(note string) bool {
	var h steps.Holder
	n, err := fmt.Sscanf(note, "%s %d", &h.Host, &h.PID)
	return err == nil && n == 2 && gone(h)
}
