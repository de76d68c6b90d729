package acceptance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nodejoin/examples/acceptance/internal/controlplane"
)

// flanneld reads net-conf.json and logs the backend that it uses. Then it is killed: TestJoin covers what it
// does next.
func (c *consumers) flanneld(ctx context.Context, a *artifact) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute,
		fmt.Errorf("flanneld did not read its file within a minute"))
	defer cancel()
	admin, err := os.ReadFile(c.bed.cluster.Kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	var want struct{ Backend struct{ Type string } }
	if err := json.Unmarshal([]byte(a.content), &want); err != nil {
		c.t.Errorf("%s: %v", a, err)
		return
	}
	log, err := os.Create(filepath.Join(c.t.TempDir(), "flanneld.log"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	cmd := c.bed.host.Command(ctx, c.program("flanneld.exe"), "--kube-subnet-mgr",
		"--kubeconfig-file="+c.put(c.dir+`\admin.conf`, string(admin)),
		"--net-config-path="+c.put(c.dir+`\net-conf.json`, a.content), "--subnet-file="+c.dir+`\subnet.env`)
	cmd.Env = append(cmd.Env, "NODE_NAME=win-1")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	defer func() { cmd.Process.Kill(); <-ended }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for over := false; ; {
		out, err := os.ReadFile(log.Name())
		if err != nil {
			c.t.Fatal(err)
		}
		if strings.Contains(string(out), "Found network config - Backend type: "+want.Backend.Type) {
			return
		}
		if over {
			c.t.Errorf("%s: flanneld ended:\n%s", a, tail(string(out)))
			return
		}
		select {
		case <-ended:
			over = true // its last output must still be read
		case <-ctx.Done():
			c.t.Errorf("%s: %v:\n%s", a, context.Cause(ctx), tail(string(out)))
			return
		case <-tick.C:
		}
	}
}

// cni has the plugins add a container, as a runtime does. Each reads its configuration and passes it on; the
// last one fails because HNS has no such network.
func (c *consumers) cni(ctx context.Context, a *artifact) {
	var list struct {
		Name    string
		Plugins []map[string]any
	}
	if err := json.Unmarshal([]byte(laterValue.ReplaceAllString(a.content, "10.0.0.0/24")), &list); err != nil ||
		len(list.Plugins) != 1 {
		c.t.Errorf("%s: %d plugins, %v", a, len(list.Plugins), err)
		return
	}
	conf := list.Plugins[0]
	// The flannel plugin that is built here predates version 1.0.0 of CNI.
	conf["name"], conf["cniVersion"] = list.Name, "0.4.0"
	conf["runtimeConfig"] = map[string]any{"dns": map[string]any{"servers": []string{controlplane.DNSIP}}}
	c.put(`C:\run\flannel\subnet.env`,
		"FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n")
	for _, p := range []string{"host-local.exe", "win-overlay.exe", "win-bridge.exe"} {
		c.program(p)
	}
	add := func(conf map[string]any) string {
		text, err := json.Marshal(conf)
		if err != nil {
			c.t.Fatal(err)
		}
		minute, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the CNI plugin still runs after a minute"))
		defer cancel()
		out, err := c.bed.host.RunWith(minute, []string{"CNI_COMMAND=ADD", "CNI_CONTAINERID=consumer",
			"CNI_NETNS=6e1a6b5e-3b8f-4a47-9a63-5f1d2e6c7b80", "CNI_IFNAME=eth0", "CNI_PATH=" + c.dir},
			string(text), c.program("flannel.exe"))
		if err == nil {
			c.t.Errorf("%s: the plugin found a network:\n%s", a, tail(out))
		}
		return out
	}
	if out := add(conf); !strings.Contains(out, list.Name) || strings.Contains(out, "parse") ||
		strings.Contains(out, "unmarshal") {
		c.t.Errorf("%s: the plugins did not get as far as the missing network %s:\n%s", a, list.Name, tail(out))
	}
	delegate := maps.Clone(conf["delegate"].(map[string]any))
	delegate["policies"] = "none"
	conf["delegate"] = delegate
	if out := add(conf); !strings.Contains(out, "unmarshal") && !strings.Contains(out, "parse") &&
		!strings.Contains(out, "load") {
		c.t.Errorf("%s: the last plugin accepted an invalid configuration:\n%s", a, tail(out))
	}
}
