// Package mirror makes a folder of the artifacts that a Windows or a Linux node needs,
// under the file names and with the layout of the upstream releases, from the built
// components.
package mirror

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"nodejoin/examples/acceptance/internal/components"
)

// Names of the artifacts, as a plan has them.
const (
	KubernetesNode = "kubernetes_node"
	Containerd     = "containerd"
	CNIPlugins     = "cni_plugins"
	FlannelCNI     = "flannel_cni"
	Flanneld       = "flanneld"
	Runc           = "runc" // of Linux only
	// Other programs of Kubernetes: of components.OldKubernetes, and with a kubelet that
	// ends as soon as it is started.
	OldKubernetesNode    = "kubernetes_node_old"
	BrokenKubernetesNode = "kubernetes_node_broken"
)

// Artifact is one file of the mirror.
type Artifact struct {
	Name   string // as a plan has it
	File   string // upstream file name
	SHA256 string // hex
	Size   int64
}

// release is the content of an artifact: members by name in an archive, or one
// program as it is (To "").
type release struct {
	name, file string
	dirs       []string
	members    []member
}

type member struct{ to, component string }

var releases = map[string][]release{"windows": windows, "linux": linux, Others: others}

// Others is what Make takes for the artifacts of Windows that a plan names instead of its own.
const Others = "others"

var linux = []release{
	{KubernetesNode, "kubernetes-node-linux-amd64.tar.gz",
		[]string{"kubernetes/", "kubernetes/node/", "kubernetes/node/bin/"},
		[]member{{"kubernetes/node/bin/kube-proxy", "kube-proxy"}, {"kubernetes/node/bin/kubelet", "kubelet"}, {"kubernetes/LICENSES", ""}}},
	{Containerd, "containerd-" + components.Containerd + "-linux-amd64.tar.gz",
		[]string{"bin/"},
		[]member{{"bin/containerd", "containerd"}, {"bin/containerd-shim-runc-v2", "containerd-shim-runc-v2"}, {"bin/ctr", "ctr"}}},
	{CNIPlugins, "cni-plugins-linux-amd64-v" + components.CNIPlugins + ".tgz",
		[]string{"./"},
		[]member{{"./bridge", "bridge"}, {"./host-local", "host-local"}, {"./loopback", "loopback"}, {"./portmap", "portmap"}, {"./README.md", ""}}},
	{FlannelCNI, "flannel-amd64", nil, []member{{"", "flannel"}}},
	{Flanneld, "flanneld-amd64", nil, []member{{"", "flanneld"}}},
	{Runc, "runc.amd64", nil, []member{{"", "runc"}}},
}

var windows = []release{
	{KubernetesNode, "kubernetes-node-windows-amd64.tar.gz",
		[]string{"kubernetes/", "kubernetes/node/", "kubernetes/node/bin/"},
		[]member{
			{"kubernetes/node/bin/kube-log-runner.exe", "kube-log-runner.exe"},
			{"kubernetes/node/bin/kube-proxy.exe", "kube-proxy.exe"},
			{"kubernetes/node/bin/kubeadm.exe", "kubeadm.exe"},
			{"kubernetes/node/bin/kubelet.exe", "kubelet.exe"},
			{"kubernetes/LICENSES", ""},
		}},
	{Containerd, "containerd-" + components.Containerd + "-windows-amd64.tar.gz",
		[]string{"bin/"},
		[]member{
			{"bin/containerd-shim-runhcs-v1.exe", "containerd-shim-runhcs-v1.exe"},
			{"bin/containerd.exe", "containerd.exe"},
			{"bin/ctr.exe", "ctr.exe"},
		}},
	{CNIPlugins, "cni-plugins-windows-amd64-v" + components.CNIPlugins + ".tgz",
		[]string{"./"},
		[]member{{"./host-local.exe", "host-local.exe"}, {"./win-bridge.exe", "win-bridge.exe"}, {"./win-overlay.exe", "win-overlay.exe"}, {"./README.md", ""}}},
	{FlannelCNI, "flannel-amd64.exe", nil, []member{{"", "flannel.exe"}}},
	{Flanneld, "flanneld.exe", nil, []member{{"", "flanneld.exe"}}},
}

// others are Windows artifacts besides those of a plan as it is written.
var others = []release{
	{OldKubernetesNode, "kubernetes-node-windows-amd64-" + components.OldKubernetes + ".tar.gz",
		[]string{"kubernetes/", "kubernetes/node/", "kubernetes/node/bin/"},
		[]member{
			{"kubernetes/node/bin/kube-log-runner.exe", "kube-log-runner.exe"},
			{"kubernetes/node/bin/kube-proxy.exe", "kube-proxy-1.35.exe"},
			{"kubernetes/node/bin/kubelet.exe", "kubelet-1.35.exe"},
		}},
	{BrokenKubernetesNode, "kubernetes-node-windows-amd64-broken.tar.gz",
		[]string{"kubernetes/", "kubernetes/node/", "kubernetes/node/bin/"},
		[]member{
			{"kubernetes/node/bin/kube-log-runner.exe", "kube-log-runner.exe"},
			{"kubernetes/node/bin/kube-proxy.exe", "kube-proxy.exe"},
			{"kubernetes/node/bin/kubelet.exe", "exits.exe"},
		}},
}

// Make fills the mirror folder of the set with the artifacts for an operating system
// and gives its path and those artifacts. What was made of the same components before
// is kept: compressing takes seconds.
func Make(ctx context.Context, set *components.Set, goos string) (dir string, artifacts map[string]Artifact, err error) {
	dir = filepath.Join(set.Dir, "mirror")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	unlock, err := components.Lock(ctx, filepath.Join(set.Dir, ".mirror.lock"))
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	artifacts = map[string]Artifact{}
	for _, r := range releases[goos] {
		a, err := r.make(set, dir)
		if err != nil {
			return "", nil, fmt.Errorf("mirror %s: %w", r.file, err)
		}
		artifacts[r.name] = a
	}
	return dir, artifacts, nil
}

// note is kept beside an artifact's stamp: what it was made of, and what it is.
type note struct {
	Inputs   string
	Artifact Artifact
}

func (r release) make(set *components.Set, dir string) (Artifact, error) {
	inputs, err := r.inputs(set)
	if err != nil {
		return Artifact{}, err
	}
	file, stamp := filepath.Join(dir, r.file), filepath.Join(set.Dir, "stamps", "mirror-"+r.file)
	if n, err := readNote(stamp); err == nil && n.Inputs == inputs {
		if info, err := os.Stat(file); err == nil && info.Size() == n.Artifact.Size {
			return n.Artifact, nil
		}
	}
	sum := sha256.New()
	out, err := os.Create(file + ".part")
	if err != nil {
		return Artifact{}, err
	}
	to := io.MultiWriter(out, sum)
	if r.dirs == nil {
		err = copyFile(to, set.Bin(r.members[0].component))
	} else {
		err = r.archive(set, to)
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return Artifact{}, err
	}
	info, err := os.Stat(out.Name())
	if err != nil {
		return Artifact{}, err
	}
	if err := os.Rename(out.Name(), file); err != nil {
		return Artifact{}, err
	}
	a := Artifact{Name: r.name, File: r.file, SHA256: hex.EncodeToString(sum.Sum(nil)), Size: info.Size()}
	b, err := json.Marshal(note{inputs, a})
	if err != nil {
		return Artifact{}, err
	}
	return a, os.WriteFile(stamp, b, 0o644)
}

func readNote(file string) (note, error) {
	var n note
	b, err := os.ReadFile(file)
	if err != nil {
		return n, err
	}
	return n, json.Unmarshal(b, &n)
}

// inputs is a digest of what the artifact is made of: name, size and time of the
// components, which are only ever replaced by new files.
func (r release) inputs(set *components.Set) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, r)
	for _, m := range r.members {
		if m.component == "" {
			continue
		}
		info, err := os.Stat(set.Bin(m.component))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, m.component, info.Size(), info.ModTime().UnixNano())
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// released is the time of all members, so that the same components give the same archive.
var released = time.Unix(1767225600, 0)

// archive writes a tar.gz, lightly compressed: the tests read it a few times only.
func (r release) archive(set *components.Set, to io.Writer) error {
	zip, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return err
	}
	w := tar.NewWriter(zip)
	for _, d := range r.dirs {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d, Mode: 0o755, ModTime: released}); err != nil {
			return err
		}
	}
	for _, m := range r.members {
		if err := add(w, set, m); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), zip.Close())
}

func add(w *tar.Writer, set *components.Set, m member) error {
	head := &tar.Header{Typeflag: tar.TypeReg, Name: m.to, Mode: 0o755, ModTime: released}
	if m.component == "" { // the texts of a release; nodejoin leaves them in the archive
		text := []byte("Apache-2.0\n")
		head.Mode, head.Size = 0o644, int64(len(text))
		if err := w.WriteHeader(head); err != nil {
			return err
		}
		_, err := io.Copy(w, bytes.NewReader(text))
		return err
	}
	info, err := os.Stat(set.Bin(m.component))
	if err != nil {
		return err
	}
	head.Size = info.Size()
	if err := w.WriteHeader(head); err != nil {
		return err
	}
	return copyFile(w, set.Bin(m.component))
}

func copyFile(to io.Writer, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(to, f)
	return err
}
