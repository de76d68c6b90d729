package proxy_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/examples/internal/exampletest"
	"nodejoin/plan"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kinds"
)

// settingsOf returns two host blocks with all settings of a machine, with different values.
func settingsOf(t *testing.T, dir string) (first, second string) {
	ca := func(name string) string {
		public, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
			NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
		der, err := x509.CreateCertificate(rand.Reader, c, c, public, key)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const block = `
    hostname            = %q
    page_file           = %d
    windows_update      = %q
    defender_exclusions = true
    long_paths          = %t
    crash_dump          = %q
    smb_names           = %t
    static_address      = true
    tcp_keepalive       = %q
    dynamic_ports       = %q
    reserved_ports      = [%q, "65330/udp"]
    trusted_cas         = [file(%q)]
    features            = ["Microsoft-Hyper-V"]
    reboot              = "auto"
`
	return fmt.Sprintf(block, "rack-7", 8096, "off", true, "kernel", true, "60s", "34000-65535",
			"30000-32767/tcp", ca("one.pem")),
		fmt.Sprintf(block, "rack-8", 4096, "notify", false, "small", false, "2m", "33000-65000",
			"30500-33100/tcp", ca("two.pem"))
}

// TestSettingsGivenBack: whatever the settings were before, and however the plan changes
// them, they are restored when the plan no longer names them, and after a leave. Names and
// features are restored only after a leave.
func TestSettingsGivenBack(t *testing.T) {
	for _, existed := range []bool{false, true} {
		t.Run(fmt.Sprintf("existed %t", existed), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			dir := exampletest.Workspace(t)
			first, second := settingsOf(t, dir)
			c := withSettings(t, dir, first)
			h, err := exampletest.Host(c.Nodes[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Mkdir(ctx, `C:\ProgramData`, host.AccessDefault); err != nil {
				t.Fatal(err)
			}
			list := set(t, c.Nodes[0])
			if existed {
				before(t, ctx, h, list)
			}
			was, values := exampletest.Snapshot(t, c.Nodes[0].Connection.Sandbox.Path), valuesOf(t, ctx, h, list)
			for i, block := range []string{first, second, "\n    reboot = \"auto\"\n", first} {
				c = withSettings(t, dir, block)
				exampletest.Run(t, ctx, c)
				if again := exampletest.Check(t, ctx, exampletest.Session(t, c)); len(again) > 0 {
					t.Errorf("apply %d: the next check still finds %v", i, slices.Sorted(maps.Keys(again)))
				}
				if d := cmp.Diff(values, valuesOf(t, ctx, h, list)); i == 2 != (d == "") {
					t.Errorf("apply %d: the values before (-) and now (+):\n%s", i, d)
				}
			}
			exampletest.Leave(t, ctx, c)
			if err := h.Reboot(ctx); err != nil { // the name and the feature take effect
				t.Fatal(err)
			}
			is := exampletest.Snapshot(t, c.Nodes[0].Connection.Sandbox.Path)
			for _, state := range []string{"state: host_name", "state: next_name"} { // recorded, as it is not the first name
				if is[state] == `"win-1"` {
					delete(is, state)
				}
			}
			if d := cmp.Diff(was, is); d != "" {
				t.Errorf("before the join (-) and after the leave (+):\n%s", d)
			}
		})
	}
}

// withSettings is the plan with another host block.
func withSettings(t *testing.T, dir, block string) *plan.Compiled {
	t.Helper()
	text, err := os.ReadFile("proxy.join.hcl")
	if err != nil {
		t.Fatal(err)
	}
	from, to := bytes.Index(text, []byte("\n  host {")), bytes.Index(text, []byte("\n  }\n}\n\nnode"))
	text = slices.Concat(text[:from], []byte("\n  host {"), []byte(block), text[to:])
	if err := os.WriteFile(filepath.Join(dir, "proxy.join.hcl"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return exampletest.Compile(t, dir, nil)
}

// set returns the registry values that a node's host block sets.
func set(t *testing.T, n plan.Node) (out []kinds.Registry) {
	t.Helper()
	for _, spec := range settings(n) {
		if spec.Kind != "registry" {
			continue
		}
		var a kinds.Registry
		if err := json.Unmarshal(spec.Args.JSON(), &a); err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	if len(out) < 15 {
		t.Fatalf("only %d values", len(out))
	}
	return out
}

// before sets everything on the machine that the steps set, to other values.
func before(t *testing.T, ctx context.Context, h host.Host, list []kinds.Registry) {
	t.Helper()
	for _, a := range list {
		if err := h.SetRegistryValue(ctx, a.Key, a.Name, host.RegistryValue{Type: "dword", Number: 77}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"HTTP_PROXY", "NO_PROXY"} {
		if err := h.SetMachineEnv(ctx, name, "before"); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.SetDynamicPorts(ctx, host.PortRange{Protocol: "tcp", First: 40000, Last: 60000}); err != nil {
		t.Fatal(err)
	}
}

// valuesOf returns the machine's current values in list, its ports and its certificate authorities.
func valuesOf(t *testing.T, ctx context.Context, h *sandbox.Host, list []kinds.Registry) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, a := range list {
		v, err := h.RegistryValue(ctx, a.Key, a.Name)
		if err == nil {
			out[a.Key+`\`+a.Name] = v
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	ports, err := h.DynamicPorts(ctx, "tcp")
	if err != nil {
		t.Fatal(err)
	}
	out["dynamic ports"] = ports
	for _, text := range []string{"30000-32767/tcp", "30500-33100/tcp", "65330/udp"} {
		r, err := host.ParsePortRange(text)
		if err != nil {
			t.Fatal(err)
		}
		if out[text], err = h.PortsReserved(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
