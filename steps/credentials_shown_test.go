package steps_test

import (
	"slices"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

func TestShowCredentials(t *testing.T) {
	for in, want := range map[string]string{
		"http://u:p@proxy:3128":                        "http://(sensitive)@proxy:3128",
		"http://proxy:3128/a@b":                        "http://proxy:3128/a@b",
		"socks5://u@h:1, then https://a:b@c@d/x":       "socks5://(sensitive)@h:1, then https://(sensitive)@d/x",
		"u:p@proxy:3128":                               "(sensitive)@proxy:3128",
		"someone@example.com":                          "someone@example.com",
		`  http = "http://user:hunter2@proxy.example"`: `  http = "http://(sensitive)@proxy.example"`,
		`C:\k;D:\x`:                                    `C:\k;D:\x`,
	} {
		if have := steps.ShowCredentials(in); have != want {
			t.Errorf("%q is shown as %q, want %q", in, have, want)
		}
	}
	have := steps.ShowEnvironment([]string{"A=secret", "B=http://u:p@h", "C=c"}, []string{"A"})
	if want := []string{"A=(sensitive)", "B=http://(sensitive)@h", "C=c"}; !slices.Equal(have, want) {
		t.Errorf("%q, want %q", have, want)
	}
}

// A service whose secret variable changes is seen to differ, and the value is not shown.
func TestServiceSecretEnvironment(t *testing.T) {
	h := stepstest.OpenHost(t, "")
	stepstest.Put(t, h, `C:\k\worker.exe`, "w")
	with := func(secret string) steps.Spec {
		s := stepstest.Service("worker", `C:\k\worker.exe`)
		s.Environment, s.SensitiveEnvironment = []string{"P=" + secret}, []string{"P"}
		return stepstest.Spec("service", "worker", s)
	}
	stepstest.Applied(t, h, nil, []steps.Spec{with("first-secret")})
	reply, err := executor.NewExecutor(kinds.Catalog(), h, nil, func(event.Event) {}).Check(t.Context(),
		executor.Request{Node: "n", Steps: []steps.Spec{with("second-secret")}})
	stepstest.Must(t, err)
	c := reply.Results[0].Change
	if c.Action != steps.ActionUpdate || len(c.Diffs) != 1 || !c.Diffs[0].Sensitive {
		t.Errorf("change %+v", c)
	}
	for _, d := range c.Diffs {
		if strings.Contains(d.Have+d.Want, "secret") {
			t.Errorf("shown: %+v", d)
		}
	}
	stepstest.Applied(t, h, nil, []steps.Spec{with("second-secret")})
	stepstest.Settled(t, h, nil, []steps.Spec{with("second-secret")})
}

// What is wrong with an artifact is told without the secrets of its address.
func TestSourceName(t *testing.T) {
	for in, want := range map[string]string{
		"https://example.com/a.zip":                      "https://example.com/a.zip",
		"https://u:SECRET@example.com/a.zip?sig=SECRET":  "https://u:xxxxx@example.com/a.zip?...",
		"https://SECRET@example.com/a.zip":               "https://xxxxx@example.com/a.zip",
		"https://example.com/a.zip?X-Amz-Signature=x#at": "https://example.com/a.zip?...",
	} {
		if have := (steps.Source{URL: in}).Name(); have != want {
			t.Errorf("%q is named %q, want %q", in, have, want)
		}
	}
}
