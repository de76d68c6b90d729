//go:build !windows

package selftest

import (
	"context"
	"fmt"
)

// isThisMachine: a simulated Windows has no calls but those of package host.
func (t *test) isThisMachine(context.Context) (bool, error) {
	return false, fmt.Errorf("%w: this is not Windows itself", errNotAsked)
}

func (t *test) describe(context.Context) {}

func (t *test) foreignServices() {
	if t.facts.OS == "windows" {
		t.see(askForeign, 2, nil, t.nativeWhy)
	}
}

func (t *test) junction() {
	if t.facts.OS == "windows" {
		t.see(askJunction, 0, nil, t.nativeWhy)
	}
}

func (t *test) connection() {
	t.see(askPipe, 8, nil, t.nativeWhy)
}

func (t *test) events() { t.see(askEvent, 0, nil, t.nativeWhy) }

func (t *test) shutdown() {
	t.see(askPrivilege, 7, nil, t.nativeWhy)
}

func (t *test) onLoopback() {
	for _, q := range loopbackQuestions {
		t.see(q.name, q.claim, nil, t.nativeWhy)
	}
}

func thisProgram() ([]string, error) { return nil, errNotAsked }

// Service is only for Windows.
func Service() int { return 1 }
