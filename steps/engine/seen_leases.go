package engine

import (
	"sync"

	"nodejoin/steps/kube"
)

// seenLeases are the plan's Leases as the run has read them last.
type seenLeases struct {
	mu   sync.Mutex
	list []kube.Lease
	ok   bool // they were read, and show a free slot as far as is known
}

func (s *seenLeases) last() (list []kube.Lease, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list, s.ok
}

func (s *seenLeases) keep(list []kube.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.ok = list, true
}

// forget is for a host that has to wait: for what it waits has to be read again.
func (s *seenLeases) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.ok = nil, false
}
