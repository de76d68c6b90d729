package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/user"
	"time"

	"nodejoin/steps"
)

// hold names this process as the lock holder.
func (a *app) hold(command string) {
	now := time.Now().UTC().Truncate(time.Second)
	a.holder = steps.LockHolder{Run: now.Format("20060102-150405-") + rand.Text()[:6], Command: command,
		User: "an unknown user", Host: "an unknown machine", PID: os.Getpid(), Since: now}
	if u, err := user.Current(); err == nil {
		a.holder.User = u.Username
	}
	if name, err := os.Hostname(); err == nil {
		a.holder.Host = name
	}
}

// gone reports whether a lock holder was a process of this computer that has ended. If
// another process has its number now, it counts as running.
func gone(h steps.LockHolder) bool {
	name, err := os.Hostname()
	return err == nil && h.Host == name && h.PID > 0 && h.PID != os.Getpid() && !processRuns(h.PID)
}

// holderNote is a lock holder as an annotation: "HOST PID".
func holderNote(host string, pid int) string { return fmt.Sprintf("%s %d", host, pid) }

// holderGone is gone for a holderNote; false for any other text.
func holderGone(note string) bool {
	var h steps.LockHolder
	n, err := fmt.Sscanf(note, "%s %d", &h.Host, &h.PID)
	return err == nil && n == 2 && gone(h)
}
