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
	now := time.Now().UTC()
	a.holder = steps.LockHolder{Run: runName(now), Command: command, User: "an unknown user",
		Host: "an unknown machine", PID: os.Getpid(), Since: now.Truncate(time.Second)}
	if u, err := user.Current(); err == nil {
		a.holder.User = u.Username
	}
	if name, err := os.Hostname(); err == nil {
		a.holder.Host = name
	}
}

// runName names a run that begins now. Names sort as their times do, to the millisecond.
func runName(now time.Time) string {
	const letters = "234567ABCDEFGHIJKLMNOPQRSTUVWXYZ" // those of rand.Text, sorted
	ms := now.Nanosecond() / int(time.Millisecond)
	return now.Format("20060102-150405-") + string(letters[ms/len(letters)]) + string(letters[ms%len(letters)]) +
		rand.Text()[:4]
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
