package engine

import "sync"

// slots bound the hosts that are worked on at once.
type slots struct {
	more func() bool // that of Options

	mu          sync.Mutex
	free        *sync.Cond
	busy, bound int
}

func newSlots(bound int, more func() bool) *slots {
	s := &slots{bound: bound, more: more}
	s.free = sync.NewCond(&s.mu)
	return s
}

// take waits for a place.
func (s *slots) take() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.busy >= s.bound {
		s.free.Wait()
	}
	s.busy++
}

// give gives a place back. If all were taken, there may be one more from then on.
func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy == s.bound && s.more != nil && s.more() {
		s.bound++
	}
	s.busy--
	s.free.Broadcast()
}
