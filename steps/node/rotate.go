package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/wait"
)

// Logs are looked at every logLook; one of more than maxLog bytes is cut.
const (
	logLook = 10 * time.Minute
	maxLog  = 100 << 20
)

// endless is the service whose log nothing else rotates: containerd appends to its --log-file forever. The
// logs of the others are rotated by kube-log-runner or the supervisor.
const endless = "containerd"

// keepLogs keeps the logs of the services in the file of the steps small, until ctx ends.
func keepLogs(ctx context.Context, h host.Host, path string, say func(line string)) {
	for {
		plan, err := readPlan(ctx, h, path)
		if err == nil { // what is wrong with the file, Run has said
			for _, log := range endlessLogs(plan) {
				switch cut, err := cutLog(log, maxLog); {
				case err != nil:
					say("the log is not kept small: " + err.Error())
				case cut:
					say(fmt.Sprintf("%s was over %d MiB; its lines are in %s%s now", log, maxLog>>20, log, olderLog))
				}
			}
		}
		if wait.Pause(ctx, logLook) != nil {
			return
		}
	}
}

// endlessLogs are the files of the logs that grow forever.
func endlessLogs(plan steps.BootPlan) (out []string) {
	for _, s := range plan.Steps {
		var a struct{ Name, Log string }
		if json.Unmarshal(s.Args.JSON(), &a) == nil && a.Name == endless && a.Log != "" {
			out = append(out, a.Log)
		}
	}
	return out
}

// olderLog is the suffix of the part that was cut off a log.
const olderLog = ".1"

// cutLog moves the content of a log of more than most bytes to the file beside it with the suffix olderLog,
// replacing that; cut reports whether it did. The program keeps writing to the same file, which it must
// have opened for appending; Windows cannot rename a file that a program holds open. What it writes between
// the copy and the cut is lost.
func cutLog(path string, most int64) (cut bool, err error) {
	in, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = in.Close() }()
	fi, err := in.Stat()
	if err != nil || !fi.Mode().IsRegular() || fi.Size() <= most {
		return false, err
	}
	out, err := os.OpenFile(path+olderLog, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return false, err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return false, fmt.Errorf("copy %s: %w", path, errors.Join(err, os.Remove(path+olderLog)))
	}
	return true, os.Truncate(path, 0)
}
