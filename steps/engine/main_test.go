package engine_test

import (
	"runtime/debug"
	"testing"

	"nodejoin/steps/host/hosttest"
)

func TestMain(m *testing.M) {
	hosttest.InMemory()
	debug.SetGCPercent(400) // the tests' time is processor time, and their memory is little
	m.Run()
}
