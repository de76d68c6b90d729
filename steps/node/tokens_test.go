package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/executor"
	"nodejoin/steps/host"
	"nodejoin/steps/hostlock"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/stepstest"
)

const (
	tokenFile = `C:\k\flannel.token`
	tokenConf = `C:\k\flannel.conf`
	tokenUID  = "uid-1"
	hourLife  = time.Hour
)

// holder is a machine with a token of an hour, which an API server renews.
type holder struct {
	*machine
	err   error // of the API server
	left  []time.Duration
	calls int
}

var _ steps.Tokens = (*holder)(nil)

// Renew mints a token as the API server does: only for a token that is valid.
func (o *holder) Renew(_ context.Context, r steps.TokenRenewal) (string, error) {
	o.calls++
	t, err := kube.ParseToken(r.Token)
	switch {
	case err != nil:
		return "", err
	case o.err != nil:
		return "", o.err
	case !time.Now().Before(t.Ends):
		return "", errors.New("401 Unauthorized")
	}
	o.left = append(o.left, time.Until(t.Ends))
	return stepstest.TestToken("kube-system", "nodejoin-flannel", tokenUID, hourLife), nil
}

func newHolder(t *testing.T, guard *steps.Guard) *holder {
	t.Helper()
	m := newMachine(t)
	m.guard = guard
	token := &kinds.TokenFile{Path: tokenFile, Account: "kube-system/nodejoin-flannel", NodeUID: tokenUID,
		Kubeconfig: tokenConf, Token: stepstest.TestToken("kube-system", "nodejoin-flannel", tokenUID, hourLife)}
	m.apply(spec("t", "token_file", token), spec("c", "kubeconfig", &kinds.Kubeconfig{Path: tokenConf,
		Server: "https://10.0.0.10:6443", CA: stepstest.TestCA(t), User: "flanneld", TokenFile: tokenFile}))
	token.Token = ""
	m.tokens = []steps.Spec{spec("t", "token_file", token)}
	m.apply(m.bootFile())
	return &holder{machine: m}
}

// run runs the service until the function ends.
func (o *holder) run(during func()) {
	o.t.Helper()
	ctx, stop := context.WithCancel(o.t.Context())
	opt := o.options(o.Host)
	opt.Pause, opt.Tokens, opt.Checks = 0, o, []Check{}
	ended := make(chan error)
	go func() { ended <- Run(ctx, opt) }()
	during()
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		o.t.Error(err)
	}
}

// current is the token in the file.
func (o *holder) current() kube.Token {
	o.t.Helper()
	f, err := host.ReadFile(o.t.Context(), o.Host, tokenFile, host.MaxText)
	if err != nil || f == nil {
		o.t.Fatal(f, err)
	}
	token, err := kube.ParseToken(string(f.Content))
	if err != nil {
		o.t.Fatal(err)
	}
	if f.Access != host.AccessPrivate {
		o.t.Errorf("others can read the token: %v", f.Access)
	}
	return token
}

// TestRenewsTokens: a token is renewed once in the last third of its life, with and without a guard, also while the
// node is paused. No service restarts.
func TestRenewsTokens(t *testing.T) {
	for name, guard := range map[string]*steps.Guard{"off": nil, "on": {Interval: time.Minute}} {
		for _, paused := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := newHolder(t, guard)
					if paused {
						x := executor.NewExecutor(nil, o.Host, none{}, nil)
						if _, err := x.Pause(t.Context(), executor.PauseRequest{
							Pause: &steps.GuardPause{By: "alice", Since: time.Now()}}); err != nil {
							t.Fatal(err)
						}
					}
					before, err := o.Service(t.Context(), "b")
					if err != nil {
						t.Fatal(err)
					}
					o.run(func() {
						for range 3 * 60 { // three lives
							time.Sleep(time.Minute)
							if left := time.Until(o.current().Ends); left < hourLife/3-2*time.Minute {
								t.Fatalf("the token is valid for %v more, calls %d", left, o.calls)
							}
						}
					})
					if len(o.left) != 4 || o.calls != 4 {
						t.Errorf("renewed with %v left, %d calls", o.left, o.calls)
					}
					for _, left := range o.left {
						if left > hourLife/3 {
							t.Errorf("renewed too early, with %v left", left)
						}
					}
					after, err := o.Service(t.Context(), "b")
					if err != nil || after.PID != before.PID {
						t.Errorf("the service restarted: %+v, %v", after, err)
					}
				})
			})
		}
	}
}

// TestRenewsBesideFaults: a token is renewed although steps are not in order, and not beside another run.
func TestRenewsBesideFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newHolder(t, &steps.Guard{Interval: time.Minute})
		o.stop("b")
		lock := hostlock.New(o.lockDir)
		take := func() {
			t.Helper()
			if r, err := lock.Take(t.Context(), steps.LockRequest{Holder: steps.LockHolder{Run: "1", Command: "apply",
				Since: time.Now()}}); err != nil || r.By != nil {
				t.Fatal(r, err)
			}
		}
		take()
		o.run(func() {
			time.Sleep(50 * time.Minute)
			if o.calls > 0 {
				t.Error("renewed beside another run")
			}
			if err := lock.Release(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
			if o.calls != 1 || time.Until(o.current().Ends) < 50*time.Minute {
				t.Errorf("%d calls, token %+v", o.calls, o.current())
			}
		})
	})
}

// TestTokenThatCannotBeRenewed: what fails is tried again after pauses that grow, and reported; a token that has ended
// needs an apply.
func TestTokenThatCannotBeRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newHolder(t, &steps.Guard{Interval: time.Minute})
		o.err = errors.New("the API server answers 503")
		state := func() steps.GuardState {
			t.Helper()
			facts, err := o.Facts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s, err := executor.GuardState(t.Context(), o.Host, facts)
			if err != nil || s == nil {
				t.Fatal(s, err)
			}
			return *s
		}
		o.run(func() {
			time.Sleep(50 * time.Minute)
			s := state()
			if o.calls < 3 || o.calls > 15 || len(s.Problems) != 1 || !strings.Contains(s.Problems[0].String(), "t: ") ||
				!strings.Contains(s.Problems[0].Text, "503") {
				t.Errorf("%d calls, %+v", o.calls, s.Problems)
			}
			o.err = nil
			time.Sleep(5 * time.Minute)
			if s = state(); len(s.Problems) > 0 || s.Renewals != 1 || len(o.left) != 1 {
				t.Errorf("after the API server came back: %+v", s)
			}
			o.err = errors.New("the API server answers 503")
			time.Sleep(70 * time.Minute)
			calls := o.calls
			s = state()
			if len(s.Problems) != 1 || !strings.Contains(s.Problems[0].Text, "run nodejoin apply") {
				t.Errorf("after the end of the token: %+v", s.Problems)
			}
			o.err = nil
			time.Sleep(time.Hour)
			if o.calls != calls {
				t.Error("a token that has ended was used to get another")
			}
			o.apply(spec("t", "token_file", &kinds.TokenFile{Path: tokenFile, Account: "kube-system/nodejoin-flannel",
				Token: stepstest.TestToken("kube-system", "nodejoin-flannel", tokenUID, hourLife)}))
			time.Sleep(42 * time.Minute)
			if s := state(); len(s.Problems) > 0 || o.calls != calls+1 {
				t.Errorf("after an apply: %+v, %d calls more", s.Problems, o.calls-calls)
			}
		})
	})
}
