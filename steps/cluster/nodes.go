package cluster

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"nodejoin/steps/kube"
)

const (
	// fewNodes is how many Nodes are read one by one. A run that asks for more gets all from one list.
	fewNodes = 8
	// watchFor is how long a watch lasts until the next one takes over: less than requestTimeout, which ends all.
	watchFor = 15 * time.Second
)

// nodeList serves the Nodes of a run over many machines: from one list, which a watch keeps current. A Node that this
// run writes is read by itself from then on, so that it shows what was written; so is one that the list does not have.
// Without the right to watch, each Node is read by itself.
type nodeList struct {
	// all lists the Nodes, changes watches them from a version of the list on, and nodeOf is one of them.
	all     func(ctx context.Context) (nodes []kube.Node, version string, err error)
	changes func(ctx context.Context, version string) (watch.Interface, error)
	nodeOf  func(n *corev1.Node) kube.Node

	mu      sync.Mutex
	asked   map[string]bool
	written map[string]bool
	have    map[string]kube.Node // nil = not listed
	off     bool                 // it cannot be listed or watched, or the run has ended
	stop    context.CancelFunc
	watches sync.WaitGroup
}

// find returns a Node that the list has.
func (l *nodeList) find(ctx context.Context, name string) (n kube.Node, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked == nil {
		l.asked, l.written = map[string]bool{}, map[string]bool{}
	}
	l.asked[name] = true
	if len(l.asked) <= fewNodes || l.off || l.written[name] {
		return kube.Node{}, false
	}
	if l.have == nil && !l.list(ctx) { // the others wait for it, too
		l.off = ctx.Err() == nil
		return kube.Node{}, false
	}
	n, ok = l.have[name]
	return n, ok
}

// wrote notes that this run writes a Node.
func (l *nodeList) wrote(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written == nil {
		l.asked, l.written = map[string]bool{}, map[string]bool{}
	}
	l.written[name] = true
}

// list lists the Nodes and begins to watch them.
func (l *nodeList) list(ctx context.Context) bool {
	nodes, version, err := l.all(ctx)
	if err != nil {
		return false
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	w, err := l.changes(life, version)
	if err != nil {
		stop()
		return false
	}
	l.have, l.stop = map[string]kube.Node{}, stop
	for _, n := range nodes {
		l.have[n.Name] = n
	}
	l.watches.Go(func() {
		defer stop()
		l.follow(life, w, version)
	})
	return true
}

// follow takes what changes until the watch breaks. Then the next reader lists again.
func (l *nodeList) follow(ctx context.Context, w watch.Interface, version string) {
	for ok := true; ok; {
		version, ok = l.take(w, version)
		w.Stop()
		if !ok {
			break
		}
		var err error
		if w, err = l.changes(ctx, version); err != nil {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.have = nil
}

// take takes the changes of one watch; ok = it came to its end.
func (l *nodeList) take(w watch.Interface, version string) (last string, ok bool) {
	for e := range w.ResultChan() {
		n, isNode := e.Object.(*corev1.Node)
		if !isNode { // what was asked for is too old, say
			return version, false
		}
		version = n.ResourceVersion
		l.mu.Lock()
		switch e.Type {
		case watch.Added, watch.Modified:
			l.have[n.Name] = l.nodeOf(n)
		case watch.Deleted:
			delete(l.have, n.Name)
		case watch.Bookmark, watch.Error:
		}
		l.mu.Unlock()
	}
	return version, true
}

// close ends the watch.
func (l *nodeList) close() {
	l.mu.Lock()
	l.off = true
	if l.stop != nil {
		l.stop()
	}
	l.mu.Unlock()
	l.watches.Wait()
}
