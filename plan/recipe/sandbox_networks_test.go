package recipe_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/plan/recipe"
	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/kube"
)

// sdnArchive returns an archive with the layout of windows-container-networking's.
func sdnArchive(t *testing.T, path string) steps.Source {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range []string{"nat.exe", "sdnbridge.exe", "sdnoverlay.exe"} {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, "stand-in for "+name); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), os.WriteFile(path, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b.Bytes())
	return steps.Source{File: path, SHA256: hex.EncodeToString(sum[:])}
}

// TestNetworks joins a sandbox with each pod network: its HNS network and delegate exist, and nothing of the
// other networks.
func TestNetworks(t *testing.T) {
	for name, c := range map[string]struct {
		network        recipe.Network
		hns, hnsType   string // of flanneld; "" = none
		plugin, absent string
		services       int
	}{
		"host-gw": {recipe.Network{Kind: "flannel", Version: "0.28.9", Backend: "host-gw"}, "cbr0", "L2Bridge",
			"win-bridge.exe", "win-overlay.exe", 4},
		"sdnbridge": {recipe.Network{Kind: "flannel", Version: "0.28.9", Backend: "host-gw", Delegate: "sdnbridge"},
			"cbr0", "L2Bridge", "sdnbridge.exe", "win-bridge.exe", 4},
		"sdnoverlay": {recipe.Network{Kind: "flannel", Version: "0.28.9", Backend: "vxlan", Delegate: "sdnoverlay",
			VNI: 5000, Port: 4789}, "flannel.5000", "Overlay", "sdnoverlay.exe", "nat.exe", 4},
		"placeholder": {recipe.Network{Kind: "flannel", Version: "0.28.9", Backend: "vxlan", VNI: 4096, Port: 4789,
			Placeholder: true}, "flannel.4096", "Overlay", "win-overlay.exe", "win-bridge.exe", 4},
		"none": {recipe.Network{Kind: "none"}, "", "", "", "flannel.exe", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			n := newNodeIn(t, c.network)
			n.converge(t, ctx)
			h := n.machine(t)
			if c.hns != "" {
				have, err := h.HNSNetwork(ctx, c.hns)
				if err != nil || have.Type != c.hnsType {
					t.Errorf("HNS network %+v, %v", have, err)
				}
				if _, err := h.Stat(ctx, `C:\opt\cni\bin\`+c.plugin); err != nil {
					t.Error(err)
				}
			}
			held, err := h.HNSNetwork(ctx, "External")
			if c.network.Placeholder != (err == nil) || err == nil && held.Type != c.hnsType {
				t.Errorf("HNS network External: %+v, %v", held, err)
			}
			if _, err := h.Stat(ctx, `C:\opt\cni\bin\`+c.absent); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", c.absent, err)
			}
			services := 0
			for _, s := range []string{"containerd", "kubelet", "flanneld", "kube-proxy"} {
				if have, err := h.Service(ctx, s); err == nil && have.State == host.ServiceRunning {
					services++
				}
			}
			if services != c.services {
				t.Errorf("%d services run, want %d", services, c.services)
			}
		})
	}
}

// TestAnotherNetwork: a machine is refused before any change if its cluster has another pod network.
func TestAnotherNetwork(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := newNode(t)
	linux := kube.Node{Name: "lin-1", Ready: true, Labels: map[string]string{"kubernetes.io/os": "linux"},
		Annotations: map[string]string{"flannel.alpha.coreos.com/backend-type": "vxlan",
			"flannel.alpha.coreos.com/backend-data": `{"VNI":1}`}}
	if err := n.sandbox.PutNode(ctx, linux); err != nil {
		t.Fatal(err)
	}
	if _, err := n.run(ctx, n.machine(t)); err == nil || !strings.Contains(err.Error(), "the VNI 1") {
		t.Fatalf("the check returned %v", err)
	}
	linux.Annotations["flannel.alpha.coreos.com/backend-data"] = `{"VNI":4096}`
	if err := n.sandbox.PutNode(ctx, linux); err != nil {
		t.Fatal(err)
	}
	conf := map[string]string{"net-conf.json": `{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","VNI":4096}}`}
	if err := n.sandbox.PutConfigMap(ctx, "kube-flannel", "kube-flannel-cfg", conf); err != nil {
		t.Fatal(err)
	}
	if _, err := n.run(ctx, n.machine(t)); err == nil || !strings.Contains(err.Error(), "the port 8472") {
		t.Fatalf("the check returned %v", err)
	}
	conf["net-conf.json"] = `{"Network":"10.244.0.0/16","Backend":{"Type":"vxlan","VNI":4096,"Port":4789}}`
	if err := n.sandbox.PutConfigMap(ctx, "kube-flannel", "kube-flannel-cfg", conf); err != nil {
		t.Fatal(err)
	}
	n.converge(t, ctx)
}

// TestStrayCNIConfiguration: a CNI configuration that would be read before ours is removed, whenever it appears.
func TestStrayCNIConfiguration(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := newNode(t)
	const stray = `C:\etc\cni\net.d\0-containerd-nat.json`
	for range 2 {
		if err := n.machine(t).WriteFile(ctx, stray, strings.NewReader("{}"), host.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		n.converge(t, ctx)
		if _, err := n.machine(t).Stat(ctx, stray); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("it is still there: %v", err)
		}
	}
}

// TestSwitchesOfOthers: flannel's network is made on a machine whose adapter already has a virtual switch. It is
// made again when the Node gets another subnet, also if it is the only network on the switch.
func TestSwitchesOfOthers(t *testing.T) {
	for _, backend := range recipe.Backends() {
		for _, held := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s held %v", backend, held), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				network := recipe.Network{Kind: "flannel", Version: "0.28.9", Backend: backend}
				name := "cbr0"
				if backend == recipe.VXLAN {
					network.VNI, network.Port, name = 4096, 4789, "flannel.4096"
				}
				n := newNodeIn(t, network)
				h := n.machine(t)
				if held {
					if err := h.CreateHNSNetwork(ctx, host.HNSNetworkConfig{Name: "l2", Type: "L2Bridge",
						Subnet: "192.168.254.0/30", Gateway: "192.168.254.1"}); err != nil {
						t.Fatal(err)
					}
				}
				n.converge(t, ctx)
				first, err := h.HNSNetwork(ctx, name)
				if err != nil {
					t.Fatal(err)
				}
				n.otherSubnet(t, ctx, "10.244.77.0/24")
				n.converge(t, ctx)
				have, err := h.HNSNetwork(ctx, name)
				if err != nil || have.ID == first.ID || !slices.Equal(have.Subnets, []string{"10.244.77.0/24"}) {
					t.Errorf("after the Node got another subnet: %+v, %v", have, err)
				}
				if svc, err := h.Service(ctx, "kube-proxy"); err != nil || svc.State != host.ServiceRunning {
					t.Errorf("kube-proxy is %q, %v", svc.State, err)
				}
			})
		}
	}
}

// otherSubnet deletes the Node. The next Node with its name gets another subnet.
func (n *node) otherSubnet(t *testing.T, ctx context.Context, subnet string) {
	t.Helper()
	have, err := n.sandbox.Node(ctx, "win-1")
	if err == nil {
		err = n.sandbox.DeleteNode(ctx, have.Name, have.UID)
	}
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(n.dir, "cluster", "cluster.*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, bytes.ReplaceAll(raw, []byte(have.PodCIDR), []byte(subnet)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	n.sandbox, err = sandbox.OpenCluster(ctx, sandbox.ClusterConfig{Dir: filepath.Join(n.dir, "cluster")})
	if err != nil {
		t.Fatal(err)
	}
	n.cluster = n.sandbox
}
