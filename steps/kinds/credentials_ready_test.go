package kinds_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// clientKubeconfig returns a kubeconfig as the kubelet writes it, with the certificate in a file that it names.
func clientKubeconfig(server, ca, certFile string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {server: %q, "+
		"certificate-authority-data: %s}\nusers:\n- name: u\n  user: {client-certificate: '%s', client-key: "+
		"'%s'}\ncontexts:\n- name: x\n  context: {cluster: c, user: u}\ncurrent-context: x\n",
		server, base64.StdEncoding.EncodeToString([]byte(ca)), certFile, certFile)
}

const (
	gateConf   = `C:\k\kubelet.conf`
	gatePEM    = `C:\k\pki\kubelet-client-current.pem`
	gateServer = "https://192.0.2.1:6443"
)

func credentialsGate(ca string) *kinds.CredentialsReady {
	return &kinds.CredentialsReady{Path: gateConf, Server: gateServer, CA: ca}
}

// issued is a machine whose kubelet writes its kubeconfig first, and the certificate after several checks.
type issued struct {
	host.Host
	pem   string
	looks int
}

func (i *issued) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	if path == gateConf {
		if i.looks++; i.looks == 3 {
			if err := i.WriteFile(ctx, gatePEM, strings.NewReader(i.pem),
				host.WriteOptions{Access: host.AccessPrivate}); err != nil {
				return nil, err
			}
		}
	}
	return i.Host.Open(ctx, path)
}

func TestCredentialsGateIsReached(t *testing.T) {
	ca := stepstest.TestCA(t)
	cert, key := stepstest.TestCert(t, "system:node:win-1", 48*time.Hour)
	h := &issued{Host: stepstest.OpenHost(t, "windows"), pem: cert + key}
	stepstest.Put(t, h, gateConf, clientKubeconfig(gateServer, ca, gatePEM))
	list := []steps.Spec{stepstest.Spec("credentials_ready", "g", credentialsGate(ca))}
	if r := stepstest.Applied(t, h, stepstest.Memory{}, list); h.looks < 3 || r.Mutations != 0 || len(r.Changed) > 0 {
		t.Errorf("looked %d times, %d mutating calls, changed %v", h.looks, r.Mutations, r.Changed)
	}
	stepstest.Settled(t, h, stepstest.Memory{}, list)
}

// closedGate is what a machine has at the end of a wait for its credential, and what the error says of it.
type closedGate struct{ name, ca, conf, pem, want string }

// closedGates have certificates of now, which synctest chooses.
func closedGates(t *testing.T) []closedGate {
	ca, otherCA := stepstest.TestCA(t), stepstest.TestCA(t)
	cert, key := stepstest.TestCert(t, "system:node:win-1", 48*time.Hour)
	other, otherKey := stepstest.TestCert(t, "system:node:win-2", 48*time.Hour)
	ended, endedKey := stepstest.TestCert(t, "system:node:win-1", time.Minute)
	good := clientKubeconfig(gateServer, ca, gatePEM)
	return []closedGate{
		{"nothing", ca, "", "", gateConf + " does not exist"},
		{"no certificate yet", ca, good, "", gatePEM + " does not exist"},
		{"half written", ca, good[:40], cert + key, "kubeconfig"},
		{"no key", ca, good, cert, "has no key"},
		{"ended", ca, good, ended + endedKey, "ended or ends at"},
		{"other node", ca, good, other + otherKey, "is that of node win-2"},
		{"other server", ca, clientKubeconfig("https://192.0.2.9:6443", ca, gatePEM), cert + key,
			"is for https://192.0.2.9:6443"},
		{"other CA", ca, clientKubeconfig(gateServer, otherCA, gatePEM), cert + key, "another CA"},
	}
}

// The gate waits for the node's credential for this cluster. If the wait ends, the error says what was there instead.
func TestCredentialsGateTimeout(t *testing.T) {
	for i, c := range closedGates(t) {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { closedGates(t)[i].check(t) })
		})
	}
}

func (c closedGate) check(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	for path, text := range map[string]string{gateConf: c.conf, gatePEM: c.pem} {
		if text != "" {
			stepstest.Put(t, h, path, text)
		}
	}
	stepstest.Put(t, h, `C:\k\kubelet.log`, "certificate signing request is pending")
	g := credentialsGate(c.ca)
	g.Log = `C:\k\kubelet.log`
	s := stepstest.Spec("credentials_ready", "g", g)
	s.Timeout = 100 * time.Millisecond
	r := stepstest.Apply(t, h, stepstest.Memory{}, []steps.Spec{s})
	if r.Err == nil || r.Err.Code != steps.CodeTimeout || len(r.Changed) > 0 {
		t.Fatalf("%+v, changed %v", r.Err, r.Changed)
	}
	for _, want := range []string{"holds a valid client certificate of node win-1", c.want, "is pending"} {
		if !strings.Contains(r.Err.Detail, want) {
			t.Errorf("the detail lacks %q: %s", want, r.Err.Detail)
		}
	}
}

// unreadable is a machine whose files cannot be opened.
type unreadable struct{ host.Host }

var errDisk = errors.New("device error")

func (u unreadable) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	if path == gateConf {
		return nil, errDisk
	}
	return u.Host.Open(ctx, path)
}

// A failed read is an error at once; it is not taken for absence.
func TestCredentialsGateCannotAsk(t *testing.T) {
	ca := stepstest.TestCA(t)
	h := stepstest.OpenHost(t, "windows")
	stepstest.Put(t, h, gateConf, clientKubeconfig(gateServer, ca, gatePEM))
	r := stepstest.Apply(t, unreadable{h}, stepstest.Memory{},
		[]steps.Spec{stepstest.Spec("credentials_ready", "g", credentialsGate(ca))})
	if r.Err == nil || r.Err.Code == steps.CodeTimeout || !strings.Contains(r.Err.Detail, errDisk.Error()) {
		t.Errorf("%+v", r.Err)
	}
}

// A program reads its bootstrap credential only when it starts. It is stopped before the file is rewritten, after the
// services that depend on it, and its own step starts it again.
func TestBootstrapStopsItsService(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	ca := stepstest.TestCA(t)
	stepstest.Put(t, h, `C:\k\worker.exe`, "worker")
	stepstest.Put(t, h, `C:\k\app.exe`, "app")
	app := stepstest.Service("app", `C:\k\app.exe`)
	app.DependsOn = []string{"worker"}
	list := func(token string) []steps.Spec {
		return []steps.Spec{
			stepstest.Spec("kubeconfig", "boot", &kinds.Kubeconfig{Path: `C:\k\boot.conf`, Server: gateServer, CA: ca,
				User: "b", Token: token, Services: []string{"worker"}}),
			stepstest.Spec("service", "worker", stepstest.Service("worker", `C:\k\worker.exe`)),
			stepstest.Spec("service", "app", app),
		}
	}
	const write = `write file C:\k\boot.conf`
	if diff := cmp.Diff([]string{write, "create service worker", "start service worker", "create service app",
		"start service app"},
		calls(t, h, stepstest.Memory{}, list("aaaaaa.0123456789abcdef"))); diff != "" {
		t.Error(diff)
	}
	stepstest.Settled(t, h, stepstest.Memory{}, list("aaaaaa.0123456789abcdef"))
	if diff := cmp.Diff([]string{"stop service app", "stop service worker", write, "start service worker",
		"start service app"},
		calls(t, h, stepstest.Memory{}, list("bbbbbb.0123456789abcdef"))); diff != "" {
		t.Error(diff)
	}
	// A missing file is written for a program that ran without it.
	stepstest.Must(t, h.Remove(t.Context(), `C:\k\boot.conf`))
	if diff := cmp.Diff([]string{"stop service app", "stop service worker", write, "start service worker",
		"start service app"},
		calls(t, h, stepstest.Memory{}, list("bbbbbb.0123456789abcdef"))); diff != "" {
		t.Error(diff)
	}
	// A file whose access alone is restored has the content that the program read.
	stepstest.Must(t, h.SetAccess(t.Context(), `C:\k\boot.conf`, host.AccessDefault))
	if diff := cmp.Diff([]string{write}, calls(t, h, stepstest.Memory{}, list("bbbbbb.0123456789abcdef"))); diff != "" {
		t.Error(diff)
	}
	stepstest.Settled(t, h, stepstest.Memory{}, list("bbbbbb.0123456789abcdef"))
}
