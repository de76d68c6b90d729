package cluster

import (
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// heldLeases are the Leases that this client has written and not released, as it wrote them, by name: they are renewed
// and released without being read. Their resource versions prevent overwriting a concurrent writer.
type heldLeases struct {
	mu   sync.Mutex
	list map[string]*coordinationv1.Lease
}

// take returns a Lease, and forgets it.
func (h *heldLeases) take(name string) *coordinationv1.Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.list[name]
	delete(h.list, name)
	return l
}

func (h *heldLeases) keep(l *coordinationv1.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.list == nil {
		h.list = map[string]*coordinationv1.Lease{}
	}
	h.list[l.Name] = l
}
