package mirror

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/examples/acceptance/internal/components"
)

// TestMake checks file names, digests and the members of each archive.
func TestMake(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	set, err := components.Dir()
	if err != nil {
		t.Fatal(err)
	}
	src, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for goos, wanted := range map[string]map[string][]string{
		"windows": {
			KubernetesNode: {"kubernetes/node/bin/kube-log-runner.exe", "kubernetes/node/bin/kube-proxy.exe",
				"kubernetes/node/bin/kubeadm.exe", "kubernetes/node/bin/kubelet.exe", "kubernetes/LICENSES"},
			Containerd: {"bin/containerd-shim-runhcs-v1.exe", "bin/containerd.exe", "bin/ctr.exe"},
			CNIPlugins: {"./host-local.exe", "./win-bridge.exe", "./win-overlay.exe", "./README.md"},
			FlannelCNI: nil,
			Flanneld:   nil,
		},
		"linux": {
			KubernetesNode: {"kubernetes/node/bin/kube-proxy", "kubernetes/node/bin/kubeadm",
				"kubernetes/node/bin/kubelet", "kubernetes/LICENSES"},
			Containerd: {"bin/containerd", "bin/containerd-shim-runc-v2", "bin/ctr"},
			CNIPlugins: {"./bridge", "./host-local", "./loopback", "./portmap", "./README.md"},
			FlannelCNI: nil,
			Flanneld:   nil,
			Runc:       nil,
		},
		Others: {
			OldKubernetesNode: {"kubernetes/node/bin/kube-log-runner.exe", "kubernetes/node/bin/kube-proxy.exe",
				"kubernetes/node/bin/kubeadm.exe", "kubernetes/node/bin/kubelet.exe"},
			NewKubernetesNode: {"kubernetes/node/bin/kube-log-runner.exe", "kubernetes/node/bin/kube-proxy.exe",
				"kubernetes/node/bin/kubelet.exe"},
			BrokenKubernetesNode: {"kubernetes/node/bin/kube-log-runner.exe", "kubernetes/node/bin/kube-proxy.exe",
				"kubernetes/node/bin/kubelet.exe"},
			SDNCNI: {"nat.exe", "sdnbridge.exe", "sdnoverlay.exe"},
		},
		OthersLinux: {
			OldKubernetesNode: {"kubernetes/node/bin/kube-proxy", "kubernetes/node/bin/kubeadm",
				"kubernetes/node/bin/kubelet"},
		},
		SidePrograms: {
			Crictl:          {"crictl.exe"},
			CSIProxy:        nil,
			WindowsExporter: nil,
			NSSM:            {"nssm-2.24/win64/nssm.exe", "nssm-2.24/README.txt"},
		},
	} {
		dir, artifacts, err := Make(ctx, components.New(set, src), goos)
		if err != nil {
			t.Fatal(err)
		}
		if len(artifacts) != len(wanted) {
			t.Errorf("%d artifacts for %s, want %d", len(artifacts), goos, len(wanted))
		}
		for name, want := range wanted {
			hold(t, dir, artifacts[name], want)
		}
	}
}

// hold checks the digest and the members of an artifact; nil = it is not an archive.
func hold(t *testing.T, dir string, a Artifact, want []string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, a.File))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if n, err := io.Copy(sum, f); err != nil || n != a.Size || hex.EncodeToString(sum.Sum(nil)) != a.SHA256 {
		t.Errorf("%s: %d bytes with %x, %v; want %d with %s", a.File, n, sum.Sum(nil), err, a.Size, a.SHA256)
	}
	if want == nil {
		return
	}
	list := members
	if strings.HasSuffix(a.File, ".zip") {
		list = zipMembers
	}
	if have := list(t, f); !slices.Equal(have, want) {
		t.Errorf("%s holds %q, want %q", a.File, have, want)
	}
}

func members(t *testing.T, f *os.File) []string {
	t.Helper()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	gz, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(gz); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if head.Typeflag == tar.TypeReg {
			names = append(names, head.Name)
		}
	}
}

func zipMembers(t *testing.T, f *os.File) []string {
	t.Helper()
	r, err := zip.OpenReader(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var names []string
	for _, m := range r.File {
		if !m.FileInfo().IsDir() {
			names = append(names, m.Name)
		}
	}
	return names
}
