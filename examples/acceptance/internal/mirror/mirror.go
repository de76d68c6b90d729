// Package mirror creates a folder with the artifacts of a Windows or Linux node from the built components, with
// the file names and layout of the upstream releases.
package mirror

import (
	"archive/tar"
	"archive/zip"
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
	"strings"
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
	// CNI plugins besides CNIPlugins, of Windows only.
	SDNCNI = "sdn_cni"
	// Other programs of Kubernetes: of components.OldKubernetes and, of Windows only, NewKubernetes, and with a kubelet
	// that ends as soon as it is started.
	OldKubernetesNode    = "kubernetes_node_old"
	NewKubernetesNode    = "kubernetes_node_new"
	BrokenKubernetesNode = "kubernetes_node_broken"
	// Programs beside those of Kubernetes.
	Crictl          = "crictl"
	CSIProxy        = "csi_proxy"
	WindowsExporter = "windows_exporter"
	NSSM            = "nssm"
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

var releases = map[string][]release{"windows": windows, "linux": linux, Others: others, OthersLinux: othersLinux,
	SidePrograms: sidePrograms}

// What Make takes for artifacts besides those that every plan needs: Others, of Windows, and OthersLinux are named
// instead of a plan's own, SidePrograms are those of programs of Windows beside Kubernetes.
const (
	Others       = "others"
	OthersLinux  = "others of Linux"
	SidePrograms = "side programs"
)

var linux = []release{
	{KubernetesNode, "kubernetes-node-linux-amd64.tar.gz",
		[]string{"kubernetes/", "kubernetes/node/", "kubernetes/node/bin/"},
		[]member{{"kubernetes/node/bin/kube-proxy", "kube-proxy"}, {"kubernetes/node/bin/kubeadm", "kubeadm"},
			{"kubernetes/node/bin/kubelet", "kubelet"}, {"kubernetes/LICENSES", ""}}},
	{Containerd, "containerd-" + components.Containerd + "-linux-amd64.tar.gz",
		[]string{"bin/"},
		[]member{{"bin/containerd", "containerd"}, {"bin/containerd-shim-runc-v2", "containerd-shim-runc-v2"},
			{"bin/ctr", "ctr"}}},
	{CNIPlugins, "cni-plugins-linux-amd64-v" + components.CNIPlugins + ".tgz",
		[]string{"./"},
		[]member{{"./bridge", "bridge"}, {"./host-local", "host-local"}, {"./loopback", "loopback"},
			{"./portmap", "portmap"}, {"./README.md", ""}}},
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
		[]member{{"./host-local.exe", "host-local.exe"}, {"./win-bridge.exe", "win-bridge.exe"},
			{"./win-overlay.exe", "win-overlay.exe"}, {"./README.md", ""}}},
	{FlannelCNI, "flannel-amd64.exe", nil, []member{{"", "flannel.exe"}}},
	{Flanneld, "flanneld.exe", nil, []member{{"", "flanneld.exe"}}},
}

// others are Windows artifacts besides those of the plan as it is written.
var others = []release{
	{OldKubernetesNode, "kubernetes-node-windows-amd64-" + components.OldKubernetes + ".tar.gz",
		[]string{"kubernetes/", "kubernetes/node/", "kubernetes/node/bin/"},
		[]member{
			{"kubernetes/node/bin/kube-log-runner.exe", "kube-log-runner.exe"},
			{"kubernetes/node/bin/kube-proxy.exe", "kube-proxy-1.35.exe"},
			{"kubernetes/node/bin/kubeadm.exe", "kubeadm-1.35.exe"},
			{"kubernetes/node/bin/kubelet.exe", "kubelet-1.35.exe"},
		}},
	{NewKubernetesNode, "kubernetes-node-windows-amd64-" + components.NewKubernetes + ".tar.gz",
		[]string{"kubernetes/", "kubernetes/node/", "kubernetes/node/bin/"},
		[]member{
			{"kubernetes/node/bin/kube-log-runner.exe", "kube-log-runner.exe"},
			{"kubernetes/node/bin/kube-proxy.exe", "kube-proxy-1.37.exe"},
			{"kubernetes/node/bin/kubelet.exe", "kubelet-1.37.exe"},
		}},
	{BrokenKubernetesNode, "kubernetes-node-windows-amd64-broken.tar.gz",
		[]string{"kubernetes/", "kubernetes/node/", "kubernetes/node/bin/"},
		[]member{
			{"kubernetes/node/bin/kube-log-runner.exe", "kube-log-runner.exe"},
			{"kubernetes/node/bin/kube-proxy.exe", "kube-proxy.exe"},
			{"kubernetes/node/bin/kubelet.exe", "exits.exe"},
		}},
	// Its programs are no Go module that can be had: a stand-in has their names.
	{SDNCNI, "windows-container-networking-cni-amd64-v" + components.SDNCNI + ".zip",
		[]string{},
		[]member{{"nat.exe", "delegate.exe"}, {"sdnbridge.exe", "delegate.exe"}, {"sdnoverlay.exe", "delegate.exe"}}},
}

// othersLinux are Linux artifacts besides those of the plan as it is written.
var othersLinux = []release{
	{OldKubernetesNode, "kubernetes-node-linux-amd64-" + components.OldKubernetes + ".tar.gz",
		[]string{"kubernetes/", "kubernetes/node/", "kubernetes/node/bin/"},
		[]member{{"kubernetes/node/bin/kube-proxy", "kube-proxy-1.35"}, {"kubernetes/node/bin/kubeadm", "kubeadm-1.35"},
			{"kubernetes/node/bin/kubelet", "kubelet-1.35"}}},
}

var sidePrograms = []release{
	{Crictl, "crictl-v" + components.Crictl + "-windows-amd64.tar.gz", []string{},
		[]member{{"crictl.exe", "crictl.exe"}}},
	{CSIProxy, "csi-proxy.exe", nil, []member{{"", "csi-proxy.exe"}}},
	{WindowsExporter, "windows_exporter-" + components.WindowsExporter + "-amd64.exe", nil,
		[]member{{"", "windows_exporter.exe"}}},
	{NSSM, "nssm-" + components.NSSM + ".zip",
		[]string{"nssm-" + components.NSSM + "/", "nssm-" + components.NSSM + "/win64/"},
		[]member{{"nssm-" + components.NSSM + "/win64/nssm.exe", "nssm.exe"},
			{"nssm-" + components.NSSM + "/README.txt", ""}}},
}

// Components are the programs in the artifacts that Make makes for an operating system.
func Components(goos string) []string {
	var names []string
	for _, r := range releases[goos] {
		for _, m := range r.members {
			if m.component != "" {
				names = append(names, m.component)
			}
		}
	}
	return names
}

// Make fills the mirror folder of the set with the artifacts for an operating system and returns its path and
// those artifacts. Archives of the same components are reused, because compressing takes seconds.
func Make(ctx context.Context, set *components.Set, goos string) (dir string,
	artifacts map[string]Artifact, err error) {
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

// note is stored beside an artifact's stamp: its inputs and its digest.
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
	switch {
	case r.dirs == nil:
		err = copyFile(to, set.Bin(r.members[0].component))
	case strings.HasSuffix(r.file, ".zip"):
		err = r.zip(set, to)
	default:
		err = r.tar(set, to)
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

// released is the modification time of all members, so that the same components give the same archive.
var released = time.Unix(1767225600, 0)

// licence is a placeholder for the texts of a release, which nodejoin does not unpack.
const licence = "Apache-2.0\n"

func (r release) zip(set *components.Set, to io.Writer) error {
	w := zip.NewWriter(to)
	for _, name := range r.dirs {
		if _, err := w.CreateHeader(&zip.FileHeader{Name: name, Modified: released}); err != nil {
			return err
		}
	}
	for _, m := range r.members {
		f, err := w.CreateHeader(&zip.FileHeader{Name: m.to, Method: zip.Deflate, Modified: released})
		if err != nil {
			return err
		}
		if m.component == "" {
			_, err = io.WriteString(f, licence)
		} else {
			err = copyFile(f, set.Bin(m.component))
		}
		if err != nil {
			return err
		}
	}
	return w.Close()
}

// tar writes a tar.gz with light compression: the tests read it only a few times.
func (r release) tar(set *components.Set, to io.Writer) error {
	gz, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return err
	}
	w := tar.NewWriter(gz)
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
	return errors.Join(w.Close(), gz.Close())
}

func add(w *tar.Writer, set *components.Set, m member) error {
	head := &tar.Header{Typeflag: tar.TypeReg, Name: m.to, Mode: 0o755, ModTime: released}
	if m.component == "" {
		head.Mode, head.Size = 0o644, int64(len(licence))
		if err := w.WriteHeader(head); err != nil {
			return err
		}
		_, err := io.WriteString(w, licence)
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
