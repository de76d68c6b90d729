package ui

import (
	"strings"
	"testing"
	"time"

	"nodejoin/plan"
	"nodejoin/steps"
	"nodejoin/steps/engine"
)

// TestCredentialsThatEnd: plan and status show a credential once it should have been renewed, and no other.
func TestCredentialsThatEnd(t *testing.T) {
	now := time.Now()
	in := func(what string, late, ends time.Duration) steps.Credential {
		return steps.Credential{What: what, Path: "/x/" + what, Ends: now.Add(ends), Late: now.Add(late)}
	}
	r := &engine.Report{Hosts: []engine.HostReport{{Node: plan.Node{Name: "win-1"}, Credentials: []steps.Credential{
		in("token", time.Hour, 3*time.Hour), in("CA", -time.Hour, time.Hour), in("certificate", -2*time.Hour, -time.Hour)}}}}
	at := func(d time.Duration) string { return now.Add(d).UTC().Format(minutes) }
	want := []string{"credentials of win-1: the CA in /x/CA ends at " + at(time.Hour),
		"credentials of win-1: the certificate in /x/certificate ended at " + at(-time.Hour)}
	var status, shown strings.Builder
	if err := WriteStatus(&status, r, nil, 0); err != nil {
		t.Fatal(err)
	}
	WritePlan(&shown, r, PlanOptions{Width: 200})
	for name, text := range map[string]string{"status": status.String(), "plan": shown.String()} {
		for _, line := range want {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("%s has no line %q:\n%s", name, line, text)
			}
		}
		if strings.Count(text, "credentials of") != len(want) {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}
