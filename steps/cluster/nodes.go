package cluster

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	"nodejoin/steps/kube"
)

const (
	// fewNodes is how many Nodes are read one by one. A run that asks for more gets all from one list.
	fewNodes = 8
	// watchFor is how long a watch lasts until the next one takes over: less than requestTimeout, which ends all.
	watchFor = 15 * time.Second
)

// nodeList serves the Nodes of a run over many machines: from one list, which a watch and the answers to this run's
// own writes keep current. It also knows which Nodes are not there yet. A Node of which a write has no such answer is
// read by itself until the list has what was written. Without the right to watch, each Node is read by itself.
type nodeList struct {
	// all lists the Nodes, changes watches them from a version of the list on, and nodeOf is one of them.
	all     func(ctx context.Context, selector string) (nodes []corev1.Node, version string, err error)
	changes func(ctx context.Context, version string) (watch.Interface, error)
	nodeOf  func(n *corev1.Node) kube.Node

	mu      sync.Mutex
	asked   map[string]bool
	written map[string]*nodeWrites
	have    map[string]listedNode // nil = not listed
	off     bool                  // it cannot be listed or watched, or the run has ended
	stop    context.CancelFunc
	watches sync.WaitGroup
}

type listedNode struct {
	kube.Node
	version string // its resourceVersion
}

// nodeWrites are what this run writes of a Node.
type nodeWrites struct {
	running int
	unknown bool   // a write failed: it may have been done all the same
	version string // of the Node after the last; "" = none is done
}

// in reports whether the list has all writes.
func (w *nodeWrites) in(n listedNode, listed bool) bool {
	switch {
	case w == nil:
		return true
	case w.running > 0 || w.unknown:
		return false
	case w.version == "":
		return true
	}
	order, err := resourceversion.CompareResourceVersion(n.version, w.version)
	return listed && err == nil && order >= 0
}

// find returns a Node as the list has it, nil for one that does not exist. ok is false if the list cannot say.
func (l *nodeList) find(ctx context.Context, name string) (n *kube.Node, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked == nil {
		l.asked = map[string]bool{}
	}
	l.asked[name] = true
	if len(l.asked) <= fewNodes || !l.listed(ctx) {
		return nil, false
	}
	have, listed := l.have[name]
	if !l.written[name].in(have, listed) {
		return nil, false
	}
	if !listed {
		return nil, true
	}
	return &have.Node, true
}

// notReady returns the Nodes that are not Ready, as the list has them. ok is false if there is none.
func (l *nodeList) notReady(ctx context.Context) (out []kube.Node, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.listed(ctx) {
		return nil, false
	}
	for _, n := range l.have {
		if !n.Ready {
			out = append(out, n.Node)
		}
	}
	return out, true
}

// listed makes the list where there is none, and reports whether there is one.
func (l *nodeList) listed(ctx context.Context) bool {
	if l.off {
		return false
	}
	if l.have == nil && !l.list(ctx) { // the others wait for it, too
		l.off = ctx.Err() == nil
	}
	return l.have != nil
}

// write notes that this run begins to write a Node. It calls the result with the Node as it is then, nil if it is not
// known.
func (l *nodeList) write(name string) (done func(n *corev1.Node, err error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written == nil {
		l.written = map[string]*nodeWrites{}
	}
	w := l.written[name]
	if w == nil {
		w = &nodeWrites{}
		l.written[name] = w
	}
	w.running++
	return func(n *corev1.Node, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		w.running--
		switch {
		case err != nil || n == nil:
			w.unknown = true
			return
		case n.ResourceVersion == "":
			return // nothing had to be written
		}
		if newer(n.ResourceVersion, w.version) {
			w.version = n.ResourceVersion
		}
		if have, listed := l.have[name]; listed && newer(n.ResourceVersion, have.version) {
			l.have[name] = listedNode{l.nodeOf(n), n.ResourceVersion}
		}
	}
}

// newer reports whether a version is newer than another, or cannot be compared with it.
func newer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err != nil || order > 0
}

// list lists the Nodes and begins to watch them.
func (l *nodeList) list(ctx context.Context) bool {
	nodes, version, err := l.all(ctx, "")
	if err != nil {
		return false
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	w, err := l.changes(life, version)
	if err != nil {
		stop()
		return false
	}
	l.have, l.stop = map[string]listedNode{}, stop
	for i := range nodes {
		l.have[nodes[i].Name] = listedNode{l.nodeOf(&nodes[i]), nodes[i].ResourceVersion}
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
		have, listed := l.have[n.Name]
		switch known := listed && !newer(n.ResourceVersion, have.version); { // by the answer to a write
		case known, e.Type == watch.Bookmark, e.Type == watch.Error:
		case e.Type == watch.Deleted:
			delete(l.have, n.Name)
		default:
			l.have[n.Name] = listedNode{l.nodeOf(n), n.ResourceVersion}
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
