package node

import (
	"context"
	"fmt"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// Check is something that a Guard looks at besides the steps, such as the ends of credentials. One that changes the
// machine takes its lock.
type Check struct {
	Name string
	// Every is the time between two looks; 0 = each round.
	Every time.Duration
	// Look says what is not in order, "" = it is. An error says that it is not known, which is a problem too.
	Look func(ctx context.Context, h host.Host, plan steps.BootPlan) (problem string, err error)
}

// Checks are those of a node.
var Checks = []Check{
	{Name: "disk", Look: lookDisk},
	{Name: "clock", Every: 10 * time.Minute, Look: lookClock},
}

const (
	// minFree is less than the kubelet keeps free by default (imagefs.available 15 %, nodefs.available 10 %) on a disk
	// of 10 GiB, so that it has tried before.
	minFree = 1 << 30
	// maxSkew is the difference of clocks from which tokens and certificates that were just made do not count.
	maxSkew = time.Minute
)

func lookDisk(ctx context.Context, h host.Host, plan steps.BootPlan) (string, error) {
	for _, folder := range plan.Guard.Folders {
		free, err := h.FreeBytes(ctx, folder)
		if err != nil {
			return "", err
		}
		if free < minFree {
			return fmt.Sprintf("%d MiB are free on the volume of %s, less than %d; delete images and logs, or grow the volume",
				free>>20, folder, minFree>>20), nil
		}
	}
	return "", nil
}

func lookClock(ctx context.Context, h host.Host, plan steps.BootPlan) (string, error) {
	if plan.Guard.API == "" {
		return "", nil
	}
	answer, err := h.ProbeAPI(ctx, plan.Guard.API)
	if err != nil {
		return "", fmt.Errorf("the API server does not answer: %w", err)
	}
	if answer.Date.IsZero() {
		return "", nil
	}
	skew := answer.Clock.Sub(answer.Date)
	if skew.Abs() < maxSkew {
		return "", nil
	}
	word := "ahead of"
	if skew < 0 {
		word = "behind"
	}
	return fmt.Sprintf("the clock is %v %s the API server's; set it, by NTP", skew.Abs().Round(time.Second), word), nil
}
