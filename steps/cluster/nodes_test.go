package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

// manyNodes is an API server with Nodes, which counts how they are asked for.
type manyNodes struct {
	t       *testing.T
	refused bool // there is no right to watch
	away    bool // it answers 503

	mu      sync.Mutex
	ready   map[string]bool
	cordons map[string]bool
	version map[string]int // of Nodes, from 2 on
	asked   map[string]int // get, list, watch, patch
	changes chan string    // names whose Node changes
	over    chan bool      // ends the running watch: true = what it saw is too old
}

func newManyNodes(t *testing.T, nodes int) (*manyNodes, kube.API) {
	m := &manyNodes{t: t, ready: map[string]bool{}, cordons: map[string]bool{}, version: map[string]int{},
		asked: map[string]int{}, changes: make(chan string), over: make(chan bool)}
	for i := range nodes {
		m.ready[fmt.Sprintf("n%d", i)] = true
	}
	a, _ := serve(t, m.answer)
	t.Cleanup(a.Close)
	return m, a
}

func (m *manyNodes) node(name string) corev1.Node {
	status := corev1.ConditionFalse
	if m.ready[name] {
		status = corev1.ConditionTrue
	}
	return corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		Spec:       corev1.NodeSpec{Unschedulable: m.cordons[name]},
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: fmt.Sprint(2 + m.version[name])},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
}

func (m *manyNodes) answer(w http.ResponseWriter, r *http.Request) {
	const path = "/api/v1/nodes"
	name := strings.TrimPrefix(r.URL.Path, path+"/")
	watches, selector := r.URL.Query().Get("watch") != "", r.URL.Query().Get("fieldSelector")
	m.mu.Lock()
	_, there := m.ready[name]
	switch {
	case r.Method == http.MethodPatch:
		m.asked["patch"]++
		m.version[name]++
	case r.URL.Path != path:
		m.asked["get"]++
	case watches:
		m.asked["watch"]++
	case selector == "spec.unschedulable=true":
		m.asked["list of cordoned"]++
	default:
		m.asked["list"]++
	}
	list := corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for n := range m.ready {
		if selector == "" || m.cordons[n] {
			list.Items = append(list.Items, m.node(n))
		}
	}
	one, away := m.node(name), m.away
	m.mu.Unlock()
	switch {
	case away:
		status(w, 503, metav1.StatusReasonServiceUnavailable, "away")
	case watches && m.refused:
		status(w, 403, metav1.StatusReasonForbidden, "no")
	case watches:
		m.stream(w, r)
	case r.URL.Path == path:
		reply(w, list)
	case !there:
		status(w, 404, metav1.StatusReasonNotFound, "no")
	default:
		reply(w, one)
	}
}

func (m *manyNodes) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case old := <-m.over:
			if old {
				m.send(w, "ERROR", metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: 410,
					Reason: metav1.StatusReasonExpired})
			}
			return
		case name := <-m.changes:
			m.mu.Lock()
			n := m.node(name)
			m.mu.Unlock()
			m.send(w, "MODIFIED", n)
		}
	}
}

func (m *manyNodes) send(w http.ResponseWriter, kind string, object any) {
	if err := json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": object}); err != nil {
		m.t.Error(err)
	}
	w.(http.Flusher).Flush()
}

// want compares how often was asked since the last want.
func (m *manyNodes) want(what string, want map[string]int) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if fmt.Sprint(m.asked) != fmt.Sprint(want) {
		m.t.Errorf("%s: asked %v, want %v", what, m.asked, want)
	}
	m.asked = map[string]int{}
}

// sets makes a Node Ready or not, and waits until the reader knows.
func (m *manyNodes) sets(a kube.API, name string, ready bool) {
	m.t.Helper()
	m.mu.Lock()
	m.ready[name] = ready
	m.version[name]++
	m.mu.Unlock()
	m.changes <- name
	for end := time.Now().Add(10 * time.Second); ; {
		n, err := a.Node(m.t.Context(), name)
		if err == nil && n.Ready == ready {
			return
		}
		if time.Now().After(end) {
			m.t.Fatalf("%s: %+v, %v", name, n, err)
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

// TestManyNodes: a run over many Nodes lists and watches them, and sees what changes. What it writes it reads.
func TestManyNodes(t *testing.T) {
	m, a := newManyNodes(t, 50)
	read := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if n, err := a.Node(t.Context(), name); err != nil || n.Name != name {
				t.Errorf("%s: %+v, %v", name, n, err)
			}
		}
	}
	for i := range 50 {
		read(fmt.Sprintf("n%d", i))
	}
	m.want("the first time", map[string]int{"get": fewNodes, "list": 1, "watch": 1})
	m.sets(a, "n3", false)
	m.want("a change", map[string]int{})
	if _, err := a.Node(t.Context(), "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no Node: %v", err)
	}
	m.want("one that is not listed", map[string]int{})
	if err := a.SetLabels(t.Context(), "n4", map[string]string{"a": "b"}, nil); err != nil {
		t.Error(err)
	}
	read("n4", "n5")
	m.want("one that was written", map[string]int{"patch": 1})
	m.sets(a, "n4", false)
	m.want("one that was written, when it changes", map[string]int{})
	m.over <- false
	m.sets(a, "n6", false)
	m.want("after the end of a watch", map[string]int{"watch": 1})
	m.over <- true
	m.ready["n7"] = false
	for n, _ := a.Node(t.Context(), "n7"); n.Ready; n, _ = a.Node(t.Context(), "n7") {
		time.Sleep(5 * time.Millisecond) // between two looks
	}
	m.want("after one that was too old", map[string]int{"list": 1, "watch": 1})
	a.Close()
	read("n8")
	m.want("closed", map[string]int{"get": 1})
}

// TestOutOfService: of many Nodes those that are out of service are known from the watch and one small list. Without
// the right to watch all are listed.
func TestOutOfService(t *testing.T) {
	for _, refused := range []bool{false, true} {
		m, a := newManyNodes(t, 50)
		m.refused = refused
		want := func(what string, names ...string) {
			t.Helper()
			list, err := a.OutOfService(t.Context())
			var have []string
			for _, n := range list {
				have = append(have, n.Name)
			}
			if err != nil || !slices.Equal(have, names) {
				t.Errorf("%s, watch refused: %t: %v, %v; want %v", what, refused, have, err, names)
			}
		}
		want("all are in service")
		m.mu.Lock()
		m.cordons["n7"], m.cordons["n3"] = true, true // no watch has said so
		m.mu.Unlock()
		want("two are cordoned", "n3", "n7")
		if !refused {
			m.want("requests", map[string]int{"list": 1, "watch": 1, "list of cordoned": 2})
			for i := range 2 * fewNodes {
				_, _ = a.Node(t.Context(), fmt.Sprintf("n%d", i))
			}
			m.sets(a, "n7", false)
			m.sets(a, "n20", false)
			m.want("requests of single Nodes", map[string]int{"get": fewNodes})
		} else {
			m.want("requests", map[string]int{"list": 3, "watch": 1})
			m.ready["n20"] = false
		}
		want("others are not Ready", "n20", "n3", "n7")
		m.away = true
		if _, err := a.OutOfService(t.Context()); !errors.Is(err, kube.ErrUnreachable) {
			t.Errorf("an API server that is away: %v", err)
		}
	}
}

// knows waits until a Node is read without a request.
func (m *manyNodes) knows(a kube.API, name string) {
	m.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		m.mu.Lock()
		m.asked = map[string]int{}
		m.mu.Unlock()
		_, err := a.Node(m.t.Context(), name)
		m.mu.Lock()
		asked := len(m.asked)
		m.mu.Unlock()
		if err == nil && asked == 0 {
			return
		}
		if time.Now().After(end) {
			m.t.Fatalf("%s: %d requests, %v", name, asked, err)
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

// TestManyNodesJoin: gates that wait for Nodes that are not there yet, and then for what was written of them, ask for
// none by itself.
func TestManyNodesJoin(t *testing.T) {
	const hosts, looks = 50, 20
	m, a := newManyNodes(t, 1)
	absent := func() {
		t.Helper()
		for i := range hosts {
			if _, err := a.Node(t.Context(), fmt.Sprintf("j%d", i)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("j%d: %v, want that it is absent", i, err)
			}
		}
	}
	for range looks {
		absent()
	}
	m.want("none is there", map[string]int{"get": fewNodes, "list": 1, "watch": 1})
	m.over <- false // a watch ends, the next takes over
	absent()
	for i := range hosts {
		m.sets(a, fmt.Sprintf("j%d", i), false)
	}
	m.want("they register", map[string]int{"watch": 1})
	for i := range hosts {
		name := fmt.Sprintf("j%d", i)
		if err := a.SetLabels(t.Context(), name, map[string]string{"a": "b"}, nil); err != nil {
			t.Error(err)
		}
		m.changes <- name
	}
	for i := range hosts {
		m.knows(a, fmt.Sprintf("j%d", i))
	}
	for range looks {
		for i := range hosts {
			if n, err := a.Node(t.Context(), fmt.Sprintf("j%d", i)); err != nil || n.Ready {
				t.Errorf("%+v, %v", n, err)
			}
		}
	}
	for i := range hosts {
		m.sets(a, fmt.Sprintf("j%d", i), true)
	}
	m.want("they are Ready", map[string]int{})
}

// TestManyNodesUnknown: whether a Node is there is not answered from the list once that is lost.
func TestManyNodesUnknown(t *testing.T) {
	m, a := newManyNodes(t, 20)
	for i := range 20 {
		if _, err := a.Node(t.Context(), fmt.Sprintf("n%d", i)); err != nil {
			t.Error(err)
		}
	}
	m.mu.Lock()
	m.away = true
	m.mu.Unlock()
	m.over <- true
	for end := time.Now().Add(10 * time.Second); ; {
		_, err := a.Node(t.Context(), "none")
		if errors.Is(err, kube.ErrUnreachable) {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || time.Now().After(end) {
			t.Fatalf("an API server that is away: %v", err)
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

// TestManyNodesWithoutWatch: without the right to watch each Node is read.
func TestManyNodesWithoutWatch(t *testing.T) {
	m, a := newManyNodes(t, 20)
	m.refused = true
	for i := range 20 {
		if _, err := a.Node(t.Context(), fmt.Sprintf("n%d", i)); err != nil {
			t.Error(err)
		}
	}
	m.want("all", map[string]int{"get": 20, "list": 1, "watch": 1})
}
