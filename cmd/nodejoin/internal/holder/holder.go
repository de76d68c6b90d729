// Package holder says who a run is, and whether the one that holds a lock has ended.
package holder

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/user"
	"time"

	"nodejoin/steps"
)

// New names this process, which runs a command, as a lock holder.
func New(command string) steps.LockHolder {
	now := time.Now().UTC()
	h := steps.LockHolder{Run: RunName(now), Command: command, User: "an unknown user",
		Host: "an unknown machine", PID: os.Getpid(), Since: now.Truncate(time.Second)}
	h.Pod = pod()
	if u, err := user.Current(); err == nil {
		h.User = u.Username
	}
	if name, err := os.Hostname(); err == nil {
		h.Host = name
	}
	return h
}

// RunName names a run that begins now. Names sort as their times do, to the millisecond.
func RunName(now time.Time) string {
	const letters = "234567ABCDEFGHIJKLMNOPQRSTUVWXYZ" // those of rand.Text, sorted
	ms := now.Nanosecond() / int(time.Millisecond)
	return now.Format("20060102-150405-") + string(letters[ms/len(letters)]) + string(letters[ms%len(letters)]) +
		rand.Text()[:4]
}

// pod is the place of this process in the Job of a fleet; "" = it has none.
func pod() string {
	uid, index := os.Getenv("NODEJOIN_FLEET_JOB_UID"), os.Getenv("JOB_COMPLETION_INDEX")
	if uid == "" || index == "" {
		return ""
	}
	return uid + "/" + index
}

// Gone reports whether a lock holder was a process of this computer that has ended, or one of a former pod in the
// place of this one: the Job controller starts the next pod of an index when the former has ended
// (podReplacementPolicy: Failed). If another process has its number now, it counts as running.
func Gone(h steps.LockHolder) bool {
	name, err := os.Hostname()
	here := err == nil && h.Host == name && h.PID > 0
	if h.Pod != "" {
		// The next pod has the host name of the former; a run beside this one is one of this pod.
		return h.Pod == pod() && (!here || h.PID == os.Getpid() || !Runs(h.PID))
	}
	return here && h.PID != os.Getpid() && !Runs(h.PID)
}

// Note is a lock holder as an annotation: "HOST PID".
func Note(host string, pid int) string { return fmt.Sprintf("%s %d", host, pid) }

// NoteGone is Gone for a Note; false for any other text.
func NoteGone(note string) bool {
	var h steps.LockHolder
	n, err := fmt.Sscanf(note, "%s %d", &h.Host, &h.PID)
	return err == nil && n == 2 && Gone(h)
}
