package kinds_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/record"
	"nodejoin/steps/stepstest"
)

// TestTokenFileOfNode: a token is renewed if it belongs to another account, is not bound to this Node, or has less
// than a third of its life left.
func TestTokenFileOfNode(t *testing.T) {
	for name, c := range map[string]struct {
		token, uid, want string
	}{
		"in order":        {stepstest.TestToken("kube-system", "x", "uid-1", time.Hour), "uid-1", ""},
		"of another Node": {stepstest.TestToken("kube-system", "x", "uid-0", time.Hour), "uid-1", "does not end with"},
		"any Node":        {stepstest.TestToken("kube-system", "x", "uid-0", time.Hour), "", ""},
		"Node not known":  {stepstest.TestToken("kube-system", "x", "uid-1", time.Hour), steps.Ref("r.uid"), "not known"},
		"another account": {stepstest.TestToken("kube-system", "y", "uid-1", time.Hour), "uid-1", "another account"},
		"ended":           {stepstest.TestToken("kube-system", "x", "uid-1", -time.Minute), "uid-1", "ended at"},
		"no token":        {"x", "uid-1", "not a token"},
	} {
		t.Run(name, func(t *testing.T) {
			h := stepstest.OpenHost(t, "windows")
			stepstest.Must(t, h.WriteFile(t.Context(), `C:\k\x.token`, strings.NewReader(c.token+"\n"),
				host.WriteOptions{Access: host.AccessPrivate}))
			f := &kinds.TokenFile{Path: `C:\k\x.token`, Token: steps.Ref("t.token"), Account: "kube-system/x", NodeUID: c.uid}
			have, err := f.Check(t.Context(), h, &steps.Env{Facts: host.Facts{OS: "windows"}})
			if err != nil || have.NoOp() != (c.want == "") || !strings.Contains(have.Reason, c.want) {
				t.Errorf("%+v, %v; want %q", have, err, c.want)
			}
		})
	}
}

// renewer mints tokens of an hour and counts them.
type renewer struct {
	asked []steps.TokenRenewal
	err   error
}

func (r *renewer) Renew(_ context.Context, of steps.TokenRenewal) (string, error) {
	r.asked = append(r.asked, of)
	return stepstest.TestToken("kube-system", "x", "uid-1", 2*time.Hour), r.err
}

// TestTokenFileRenewsItself: without a token of the plan, as in nodejoin's service on the node, the file's own token
// is used to renew it. An expired token cannot be renewed; a failed renewal does not change the file.
func TestTokenFileRenewsItself(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	put := func(token string) {
		t.Helper()
		stepstest.Must(t, h.WriteFile(t.Context(), `C:\k\x.token`, strings.NewReader(token),
			host.WriteOptions{Access: host.AccessPrivate}))
	}
	conf := &kinds.Kubeconfig{Path: `C:\k\x.conf`, Server: "https://192.0.2.1:6443", CA: stepstest.TestCA(t), User: "u",
		TokenFile: `C:\k\x.token`}
	written := []steps.Spec{stepstest.Spec("kubeconfig", "c", conf)}
	if r := stepstest.Apply(t, h, stepstest.Memory{}, written); r.Err != nil {
		t.Fatal(r.Err)
	}
	stepstest.Settled(t, h, stepstest.Memory{}, written)
	f := &kinds.TokenFile{Path: `C:\k\x.token`, Account: "kube-system/x", Kubeconfig: conf.Path, NodeUID: "uid-1"}
	facts, err := h.Facts(t.Context())
	stepstest.Must(t, err)
	rec, err := record.Load(t.Context(), h, facts)
	stepstest.Must(t, err)
	e := &steps.Env{Facts: facts, Record: rec, Undos: steps.UndosOf(kinds.Catalog()),
		Progress: func(event.StepProgress) {}}
	apply := func() error {
		c, err := f.Check(t.Context(), h, e)
		if err != nil || c.NoOp() {
			t.Fatalf("%+v, %v; want a change", c, err)
		}
		_, err = f.Apply(t.Context(), h, e, c)
		return err
	}
	of := func(text string) func(error) {
		return func(err error) {
			t.Helper()
			var se *steps.Error
			if !errors.As(err, &se) || !strings.Contains(se.Error()+se.Detail, text) {
				t.Errorf("%v, want %q", err, text)
			}
		}
	}
	old := stepstest.TestToken("kube-system", "x", "uid-0", time.Hour)
	put(old)
	of("has no token")(apply())

	r := &renewer{}
	e.Tokens = r
	stepstest.Must(t, apply())
	if c, err := f.Check(t.Context(), h, e); err != nil || !c.NoOp() {
		t.Errorf("after the renewal: %+v, %v", c, err)
	}
	if len(r.asked) != 1 || r.asked[0].Token != old || r.asked[0].Server != conf.Server || len(r.asked[0].CA) == 0 {
		t.Errorf("asked for %+v", r.asked)
	}

	put(stepstest.TestToken("kube-system", "x", "uid-1", -time.Second))
	of("run nodejoin apply")(wrapRemedy(apply()))
	put(old)
	r.err = errors.New("no way")
	if err := apply(); !errors.Is(err, r.err) {
		t.Errorf("%v", err)
	}
	if have, err := host.ReadFile(t.Context(), h, f.Path, host.MaxText); err != nil || string(have.Content) != old {
		t.Errorf("a renewal that failed changed the file: %v", err)
	}
}

// wrapRemedy adds the remedy of an error to its detail.
func wrapRemedy(err error) error {
	var se *steps.Error
	if errors.As(err, &se) {
		return &steps.Error{Code: se.Code, Summary: se.Summary, Detail: se.Detail + "; " + se.Remedy}
	}
	return err
}
