package kinds_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/executor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// TestCredentialsOfCheck: the check of a plan has the ends of all credentials of its machine: CA, token, the kubelet's
// client and serving certificate. What is absent, or is no credential, has none, and a check without a plan asks none.
func TestCredentialsOfCheck(t *testing.T) {
	const serving, ca, token = `C:\k\pki\kubelet-server-current.pem`, `C:\k\pki\ca.crt`, `C:\k\flannel.token`
	h := stepstest.OpenHost(t, "windows")
	caPEM, _ := stepstest.TestCert(t, "ca", 8*time.Hour)
	leaf, key := stepstest.TestCert(t, "system:node:win-1", 9*time.Hour)
	client, clientKey := stepstest.TestCert(t, "system:node:win-1", 19*time.Hour)
	stepstest.Put(t, h, serving, leaf+caPEM+key) // as the kubelet writes it: the leaf is the first
	stepstest.Put(t, h, gatePEM, client+clientKey)
	stepstest.Put(t, h, gateConf, clientKubeconfig(gateServer, caPEM, gatePEM))
	list := []steps.Spec{
		stepstest.Spec("file", "ca", &kinds.File{Path: ca, Content: caPEM}),
		stepstest.Spec("token_file", "token", &kinds.TokenFile{Path: token, Account: "kube-system/a",
			Token: stepstest.TestToken("kube-system", "a", "u", 24*time.Hour)}),
		stepstest.Spec("credentials_ready", "client", credentialsGate(caPEM)),
		stepstest.Spec("file_ready", "serving", &kinds.FileReady{Path: serving, Contains: "BEGIN CERTIFICATE"}),
		stepstest.Spec("file_ready", "absent", &kinds.FileReady{Path: `C:\k\none.pem`}),
	}
	stepstest.Applied(t, h, stepstest.Memory{}, list[:4])
	x := executor.NewExecutor(kinds.Catalog(), h, nil, func(event.Event) {})
	found, err := x.Check(t.Context(), executor.Request{Node: "win-1", Plan: "p", Steps: list})
	stepstest.Must(t, err)
	var have []string
	for _, c := range found.Credentials {
		have = append(have, fmt.Sprintf("%s %s %dh", c.What, c.Path, int(time.Until(c.Ends).Round(time.Hour).Hours())))
		if !c.Late.After(c.From) || !c.Late.Before(c.Ends) {
			t.Errorf("%s is late at %s", c.What, c.Late)
		}
	}
	want := []string{"CA " + ca + " 8h", "token " + token + " 24h", "client certificate " + gatePEM + " 19h",
		"serving certificate " + serving + " 9h"}
	if !slices.Equal(have, want) {
		t.Errorf("credentials:\n%q\nwant\n%q", have, want)
	}
	found, err = x.Check(t.Context(), executor.Request{Node: "win-1", Steps: list})
	if err != nil || len(found.Credentials) > 0 {
		t.Errorf("without a plan: %v, %v", found.Credentials, err)
	}
}
