package node_test

import (
	"testing"

	"nodejoin/steps/host/hosttest"
)

func TestMain(m *testing.M) {
	hosttest.InMemory()
	m.Run()
}
