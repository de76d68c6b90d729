package engine

import (
	"sync"
	"time"
)

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

// patience is how long hosts wait for those that are slow: after that there may be one host more at once, and the slot
// of a host that does not answer is another's.
const patience = time.Second

// take waits for a place.
func (s *slots) take() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.busy >= s.bound {
		slow := time.AfterFunc(patience, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.grow()
			s.free.Broadcast()
		})
		s.free.Wait()
		slow.Stop()
	}
	s.busy++
}

// give gives a place back. If all were taken, there may be one more from then on.
func (s *slots) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grow()
	s.busy--
	s.free.Broadcast()
}

func (s *slots) grow() {
	if s.busy == s.bound && s.more != nil && s.more() {
		s.bound++
	}
}

// lend runs f, which waits for a machine whose host has a place. If that takes long, others may have the place until f
// ends: machines that are dead, or come and go, cost them nothing.
func (s *slots) lend(f func()) {
	lent := time.AfterFunc(patience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy--
		s.free.Broadcast()
	})
	defer func() {
		if !lent.Stop() {
			s.take()
		}
	}()
	f()
}
