package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/kube"
)

// scriptedCluster is a kube.API in memory whose Node and requests are functions of
// the time since it was made.
type scriptedCluster struct {
	kube.API
	start    time.Time
	node     func(age time.Duration) (kube.Node, error)
	requests func(age time.Duration) []kube.SigningRequest
	tokens   []kube.BootstrapToken
	revoked  []string
	reads    int
}

func (s *scriptedCluster) Node(ctx context.Context, name string) (kube.Node, error) {
	s.reads++
	if s.node == nil {
		return kube.Node{}, fmt.Errorf("reading the Node %s: %w", name, fs.ErrNotExist)
	}
	return s.node(time.Since(s.start))
}

func (s *scriptedCluster) SigningRequests(ctx context.Context, node string) ([]kube.SigningRequest, error) {
	if s.requests == nil {
		return nil, nil
	}
	return s.requests(time.Since(s.start)), nil
}

func (s *scriptedCluster) BootstrapTokens(ctx context.Context, node string) ([]kube.BootstrapToken, error) {
	return s.tokens, nil
}

func (s *scriptedCluster) MintToken(ctx context.Context, node string, ttl time.Duration) (kube.BootstrapToken, error) {
	t := kube.BootstrapToken{ID: fmt.Sprintf("%06d", len(s.tokens)), Secret: "0123456789abcdef",
		Expires: time.Now().Add(ttl)}
	s.tokens = append(s.tokens, kube.BootstrapToken{ID: t.ID, Expires: t.Expires})
	return t, nil
}

func (s *scriptedCluster) RevokeToken(ctx context.Context, id string) error {
	s.revoked = append(s.revoked, id)
	s.tokens = nil
	return nil
}

// applyGate applies a step with a deadline in virtual time and returns what was reported.
func applyGate(t *testing.T, step steps.ClusterStep, s *scriptedCluster, bound time.Duration) (notes []string,
	waited time.Duration, err error) {
	t.Helper()
	s.start = time.Now()
	ctx, cancel := context.WithTimeoutCause(context.Background(), bound,
		&steps.Error{Code: steps.CodeTimeout, Summary: "not done in time"})
	defer cancel()
	e := &steps.Env{Node: "win-1", StepID: "x", Progress: func(p event.StepProgress) { notes = append(notes, p.Note) }}
	_, err = step.Apply(ctx, s, e, steps.Change{Action: steps.ActionWait})
	return notes, time.Since(s.start), err
}

func after(d time.Duration, n kube.Node) func(time.Duration) (kube.Node, error) {
	return func(age time.Duration) (kube.Node, error) {
		if age < d {
			return kube.Node{}, fs.ErrNotExist
		}
		return n, nil
	}
}

func TestNodeRegisteredSaysWhatItSees(t *testing.T) {
	one := func(q kube.SigningRequest) func(time.Duration) []kube.SigningRequest {
		q.Name, q.Requestor = "csr-1", "system:bootstrap:abcdef"
		return func(time.Duration) []kube.SigningRequest { return []kube.SigningRequest{q} }
	}
	for _, c := range []struct {
		title    string
		node     func(time.Duration) (kube.Node, error)
		requests func(time.Duration) []kube.SigningRequest
		code     steps.Code
		want     string // in the detail
		remedy   string
		waited   time.Duration
	}{
		{"no request", nil, nil, steps.CodeTimeout, "no certificate request of system:node:win-1", "bootstrap token",
			time.Minute},
		{"expired token", nil, nil, steps.CodeFailed, "it has expired or was removed", "ttl = ", tokenGrace + 2*time.Second},
		{"pending", nil, one(kube.SigningRequest{}), steps.CodeTimeout, "csr-1 of system:bootstrap:abcdef is pending",
			"kubectl certificate approve csr-1", time.Minute},
		{"approved", nil, one(kube.SigningRequest{Approved: true}), steps.CodeTimeout, "no certificate was issued",
			"--cluster-signing-cert-file", time.Minute},
		{"issued", nil, one(kube.SigningRequest{Approved: true, Issued: true}), steps.CodeTimeout,
			"was issued, but the kubelet", "kubelet's log", time.Minute},
		{"no pod CIDR", after(0, kube.Node{}), nil, steps.CodeTimeout, "assigns none", "--allocate-node-cidrs", time.Minute},
		{"denied before", nil, one(kube.SigningRequest{Denied: true, Message: "no"}), steps.CodeDenied,
			"csr-1 was denied: no", "kubectl delete csr csr-1", 22 * time.Second},
		{"denied", nil, func(age time.Duration) []kube.SigningRequest {
			return []kube.SigningRequest{{Name: "csr-2", Denied: age > 3*time.Second}}
		}, steps.CodeDenied, "csr-2 was denied", "", 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			tokens := []kube.BootstrapToken{{ID: "abcdef", Expires: time.Now().Add(time.Hour)}}
			if c.title == "expired token" {
				tokens[0].Expires = time.Now().Add(-time.Second)
			}
			notes, waited, err := applyGate(t, &NodeRegistered{PodCIDR: true},
				&scriptedCluster{node: c.node, requests: c.requests, tokens: tokens}, time.Minute)
			var se *steps.Error
			if !errors.As(err, &se) || se.Code != c.code || !strings.Contains(se.Detail, c.want) ||
				!strings.Contains(se.Remedy, c.remedy) {
				t.Errorf("%s: have %#v", c.title, err)
			}
			if waited > c.waited {
				t.Errorf("%s: waited %s", c.title, waited)
			}
			if len(notes) == 0 || len(notes) > 2 {
				t.Errorf("%s: reported %q", c.title, notes)
			}
		})
	}
}

func TestNodeRegisteredIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedCluster{node: after(10*time.Second, kube.Node{UID: "u", PodCIDR: "10.244.1.0/24"})}
		_, waited, err := applyGate(t, &NodeRegistered{PodCIDR: true}, s, time.Minute)
		if err != nil || waited > 12*time.Second || s.reads > 20 {
			t.Errorf("%v after %s and %d questions", err, waited, s.reads)
		}
		c, err := (&NodeRegistered{PodCIDR: true}).Check(t.Context(), s, &steps.Env{Node: "win-1"})
		if d := cmp.Diff(steps.Change{Outputs: map[string]string{"pod_cidr": "10.244.1.0/24",
			"subnet_gateway": "10.244.1.1/24", "uid": "u"}}, c); d != "" || err != nil {
			t.Error(d, err)
		}
	})
}

// A Node that was registered by a kubelet of another version than the plan's is an error at once; a Node that still
// shows an earlier kubelet is waited for.
func TestNodeRegisteredWithAnotherVersion(t *testing.T) {
	none, earlier := "", "v1.35.4"
	for _, c := range []struct {
		title   string
		earlier *string
		node    func(time.Duration) (kube.Node, error)
		want    string // summary
		waited  time.Duration
	}{
		{"a new Node", &none, after(3*time.Second, kube.Node{KubeletVersion: "v1.36.2"}),
			"the kubelet is another version", otherGrace + 6*time.Second},
		{"a Node that has changed", &earlier, after(0, kube.Node{KubeletVersion: "v1.36.2"}),
			"the kubelet is another version", otherGrace + 2*time.Second},
		{"an earlier kubelet", &earlier, after(0, kube.Node{KubeletVersion: "v1.35.4"}),
			"the Node did not register in time with the kubelet of the plan", time.Minute},
		{"not known", nil, after(0, kube.Node{KubeletVersion: "v1.36.2"}),
			"the Node did not register in time with the kubelet of the plan", time.Minute},
		{"a kubelet of another name", &none, after(0, kube.Node{KubeletVersion: "v1.36.3-vendor.1"}), "", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &scriptedCluster{node: c.node, start: time.Now()}
			ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute,
				&steps.Error{Code: steps.CodeTimeout, Summary: "not done in time"})
			defer cancel()
			e := &steps.Env{Node: "win-1", StepID: "x", Kubelet: c.earlier, Progress: func(event.StepProgress) {}}
			_, err := (&NodeRegistered{Version: "1.36.3"}).Apply(ctx, s, e, steps.Change{Action: steps.ActionWait})
			var se *steps.Error
			if waited := time.Since(s.start); errors.As(err, &se) != (c.want != "") || se != nil &&
				(se.Summary != c.want ||
					(se.Code == steps.CodeOtherVersion) != (c.want == "the kubelet is another version")) || waited > c.waited {
				t.Errorf("%s: have %v after %s", c.title, err, waited)
			}
		})
	}
}

func TestGateOutlastsARestartOfTheAPIServer(t *testing.T) {
	away := fmt.Errorf("reading the Node win-1: %w: https://192.0.2.1:6443", kube.ErrUnreachable)
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedCluster{node: func(age time.Duration) (kube.Node, error) {
			switch {
			case age < 5*time.Second:
				return kube.Node{ReadyReason: "KubeletNotReady: cni plugin not initialized"}, nil
			case age < 25*time.Second:
				return kube.Node{}, away
			}
			return kube.Node{Ready: true}, nil
		}}
		notes, _, err := applyGate(t, &NodeReady{}, s, time.Minute)
		want := []string{"the Node is not Ready: KubeletNotReady: cni plugin not initialized", kube.ErrUnreachable.Error()}
		if d := cmp.Diff(want, notes); err != nil || d != "" {
			t.Error(err, d)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedCluster{node: func(time.Duration) (kube.Node, error) { return kube.Node{}, away }}
		_, waited, err := applyGate(t, &NodeReady{}, s, 10*time.Minute)
		if !errors.Is(err, kube.ErrUnreachable) || waited > 35*time.Second {
			t.Errorf("%v after %s", err, waited)
		}
		if _, err := (&NodeReady{}).Check(t.Context(), s, &steps.Env{Node: "win-1"}); !errors.Is(err, kube.ErrUnreachable) {
			t.Errorf("check: %v", err)
		}
	})
}

func TestGateEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedCluster{node: func(time.Duration) (kube.Node, error) { return kube.Node{}, kube.ErrUnauthorized }}
		if _, waited, err := applyGate(t, &NodeReady{}, s, time.Minute); !errors.Is(err, kube.ErrUnauthorized) ||
			waited != 0 {
			t.Errorf("%v after %s", err, waited)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := (&NodeReady{}).Apply(ctx, &scriptedCluster{},
			&steps.Env{Node: "win-1", Progress: func(event.StepProgress) {}}, steps.Change{})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestBootstrapToken(t *testing.T) {
	ctx, s := context.Background(), &scriptedCluster{}
	step, e := &BootstrapToken{TTL: "20m"}, &steps.Env{Node: "win-1"}
	c, err := step.Check(ctx, s, e)
	if err != nil || c.Action != steps.ActionCreate {
		t.Fatal(c, err)
	}
	o, err := step.Apply(ctx, s, e, c)
	if err != nil || o.Outputs["token"] != "000000.0123456789abcdef" || len(o.Sensitive) != 1 {
		t.Fatal(o, err)
	}
	e.Applied = o.Outputs
	if c, err = step.Check(ctx, s, e); err != nil || !c.NoOp() {
		t.Error(c, err)
	}
	gone, e2 := &BootstrapToken{Absent: true}, &steps.Env{Node: "win-1"}
	if c, err = gone.Check(ctx, s, e2); err != nil || c.Action != steps.ActionDelete {
		t.Error(c, err)
	}
	if _, err = gone.Apply(ctx, s, e2, c); err != nil || len(s.revoked) != 1 {
		t.Error(s.revoked, err)
	}
	if c, err = gone.Check(ctx, s, e2); err != nil || !c.NoOp() {
		t.Error(c, err)
	}
	if c, err = step.Check(ctx, s, e); err != nil || c.Action != steps.ActionCreate || strings.Contains(fmt.Sprint(c),
		"0123456789abcdef") {
		t.Error(c, err)
	}
	for _, ttl := range []string{"soon", "-1h", "1s"} {
		var se *steps.Error
		if _, err := (&BootstrapToken{TTL: ttl}).Check(ctx, s, e); !errors.As(err, &se) || se.Code != steps.CodeInvalid {
			t.Errorf("ttl %q: %v", ttl, err)
		}
	}
}

func TestNodeLabelsAndTaints(t *testing.T) {
	ctx, e := context.Background(), &steps.Env{Node: "win-1"}
	labels := &NodeLabels{Labels: map[string]string{"b": "2", "a": "", "c": "3"}}
	taints := &NodeTaints{Taints: []kube.Taint{{Key: "os", Value: "windows", Effect: "NoSchedule"},
		{Key: "gpu", Effect: "NoExecute"}}}
	s := &scriptedCluster{node: after(0, kube.Node{Labels: map[string]string{"b": "1", "c": "3", "z": "9"},
		Taints: []kube.Taint{{Key: "os", Value: "linux", Effect: "NoSchedule"}, {Key: "gpu", Effect: "NoSchedule"}}})}
	noted := &scriptedCluster{node: after(0, kube.Node{Labels: map[string]string{"c": "3"},
		Taints:      []kube.Taint{{Key: "gpu", Effect: "NoSchedule"}},
		Annotations: map[string]string{kube.LabelsOf: `{"c":"3"}`, kube.TaintsOf: `[{"key":"gpu","effect":"NoSchedule"}]`}})}
	s.start, noted.start = time.Now(), time.Now()
	for _, c := range []struct {
		step    steps.ClusterStep
		cluster *scriptedCluster
		want    steps.Change
	}{
		{labels, s, steps.Change{Action: steps.ActionUpdate, Diffs: []steps.Diff{{Name: "label a", Want: `""`},
			{Name: "label b", Have: `"1"`, Want: `"2"`}}}},
		{taints, s, steps.Change{Action: steps.ActionUpdate,
			Diffs: []steps.Diff{{Name: "taint gpu:NoExecute", Want: "gpu:NoExecute"},
				{Name: "taint os:NoSchedule", Have: "os=linux:NoSchedule", Want: "os=windows:NoSchedule"}}}},
		{&NodeLabels{Labels: map[string]string{"a": "1"}}, &scriptedCluster{},
			steps.Change{Action: steps.ActionCreate, Reason: notRegistered,
				Diffs: []steps.Diff{{Name: "label a", Want: `"1"`}}}},
		{&NodeLabels{Labels: map[string]string{"c": "3"}}, noted, steps.Change{}},
		{&NodeTaints{Taints: []kube.Taint{{Key: "gpu", Effect: "NoSchedule"}}}, noted, steps.Change{}},
		{&NodeTaints{Taints: []kube.Taint{}}, noted,
			steps.Change{Action: steps.ActionUpdate,
				Diffs: []steps.Diff{{Name: "taint gpu:NoSchedule", Have: "gpu:NoSchedule"}}}},
	} {
		have, err := c.step.Check(ctx, c.cluster, e)
		if d := cmp.Diff(c.want, have); d != "" || err != nil {
			t.Error(d, err)
		}
	}
	for _, bad := range [][]kube.Taint{{{Key: "a", Effect: "Never"}}, {{Key: "a", Value: "1", Effect: "NoExecute"},
		{Key: "a", Effect: "NoExecute"}}} {
		var se *steps.Error
		if _, err := (&NodeTaints{Taints: bad}).Check(ctx, s, e); !errors.As(err, &se) || se.Code != steps.CodeInvalid {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestNodeNameFree(t *testing.T) {
	there := func(ready bool, ip string) func(time.Duration) (kube.Node, error) {
		return func(time.Duration) (kube.Node, error) { return kube.Node{Ready: ready, InternalIP: ip}, nil }
	}
	for _, c := range []struct {
		title   string
		address string
		node    func(time.Duration) (kube.Node, error)
		code    steps.Code // "" = passes
	}{
		{"no Node", "192.0.2.1", nil, ""},
		{"same address", "192.0.2.1", there(true, "192.0.2.1"), ""},
		{"another address", "192.0.2.1", there(true, "192.0.2.2"), steps.CodeFailed},
		{"another address, not Ready", "192.0.2.1", there(false, "192.0.2.2"), ""},
		{"no address known of the Node", "192.0.2.1", there(true, ""), ""},
		{"machine not asked yet", steps.Ref("fact.management_ip"), there(true, "192.0.2.2"), ""},
		{"no address", "", nil, steps.CodeInvalid},
		{"no answer", "192.0.2.1", func(time.Duration) (kube.Node, error) { return kube.Node{}, kube.ErrUnreachable },
			steps.CodeUnreachable},
	} {
		change, err := (&NodeNameFree{Address: c.address}).Check(t.Context(), &scriptedCluster{node: c.node},
			&steps.Env{Node: "win-1"})
		if !change.NoOp() || (err != nil) != (c.code != "") || err != nil && steps.AsError(err).Code != c.code {
			t.Errorf("%s: change %+v, error %v, want code %q", c.title, change, err, c.code)
		}
	}
}
