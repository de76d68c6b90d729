package engine_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"nodejoin/plan"
	"nodejoin/plan/compat"
	"nodejoin/steps/host/sandbox"
)

// drawn is a plan that was drawn: what it has of what a plan may have.
type drawn struct {
	os    string
	parts []choice
}

// choice is one choice of a dimension: what it adds to which block of the plan.
type choice struct {
	dimension, name string
	// in has the text by block: "top" and "steps" are the plan itself, "connection" that of the node.
	in map[string]string
	// artifacts that it needs, with their versions.
	artifacts map[string]string
	// gone: artifacts of the base that it has no use for.
	gone []string
}

// ofPair are the dimensions in which the plans of a pair do not differ: they are the cluster's and the machine's,
// not the plan's. A node that kubeadm has joined, or has not, is not joined again for it.
var ofPair = []string{"age", "engine", "pod_cidr", "data_dir", "kubeadm"}

// draw draws a plan. Of another one, if it is given, it has what plans of a pair have in common.
func draw(rnd *rand.Rand, osName string, other *drawn) drawn {
	d := drawn{os: osName}
	all := dimensions(osName)
	for _, dim := range slices.Sorted(maps.Keys(all)) {
		choices := all[dim]
		i, n := 0, 4
		if len(choices) > 3 {
			n = 2
		}
		if rnd.IntN(n) == 0 {
			i = rnd.IntN(len(choices))
		}
		p := choices[i]
		p.dimension = dim
		if other != nil && slices.Contains(ofPair, dim) {
			p = other.of(dim)
		}
		d.parts = append(d.parts, p)
	}
	return d
}

// drawPair draws two plans that the language takes.
func drawPair(t testing.TB, rnd *rand.Rand, osName string) (a, b drawn) {
	t.Helper()
	w := newWorld(t)
	valid := func(other *drawn) drawn {
		for range 400 {
			d := draw(rnd, osName, other)
			// Flannel of the cluster's other nodes is the cluster's: nodejoin refuses to join with another backend.
			if other != nil && strings.Contains(d.block("manifests")+other.block("manifests"), "flannel = true") {
				d.parts[slices.IndexFunc(d.parts,
					func(p choice) bool { return p.dimension == "network" })] = other.of("network")
			}
			if w.refused(d) == nil {
				return d
			}
		}
		t.Fatal("400 plans in a row are refused")
		return drawn{}
	}
	a = valid(nil)
	return a, valid(&a)
}

// refused is what the language has against the plan.
func (w *world) refused(d drawn) error {
	w.write(d)
	_, err := w.compiled()
	return err
}

// planOf is the plan with the named choices, and the first one of every other dimension.
func planOf(osName string, names ...string) drawn {
	d := drawn{os: osName}
	for dim, choices := range dimensions(osName) {
		i := max(0, slices.IndexFunc(choices,
			func(c choice) bool { return c.name != "" && slices.Contains(names, c.name) }))
		p := choices[i]
		p.dimension = dim
		d.parts = append(d.parts, p)
	}
	slices.SortFunc(d.parts, func(a, b choice) int { return strings.Compare(a.dimension, b.dimension) })
	return d
}

func (d drawn) String() string {
	var out []string
	for _, p := range d.parts {
		if name := p.name; name != "" {
			out = append(out, name[:min(len(name), 60)])
		}
	}
	return strings.Join(out, ", ")
}

func (d drawn) has(name string) bool {
	return slices.ContainsFunc(d.parts, func(p choice) bool { return p.name == name })
}

func (d drawn) of(dimension string) choice {
	return d.parts[slices.IndexFunc(d.parts, func(p choice) bool { return p.dimension == dimension })]
}

// block is what the choices add to a block.
func (d drawn) block(name string) string {
	var out []string
	for _, p := range d.parts {
		if text := p.in[name]; text != "" {
			out = append(out, text)
		}
	}
	return strings.Join(out, "\n")
}

// wrapped is a block with what the choices add to it; "" where they add nothing.
func (d drawn) wrapped(name string) string {
	if text := d.block(name); text != "" {
		return name + " {\n" + text + "\n}\n"
	}
	return ""
}

// needs are the artifacts of the plan with their versions.
func (d drawn) needs() map[string]string {
	out := map[string]string{"kubernetes_node": "1.36.3", "containerd": "2.2.1", "cni_plugins": "1.9.1",
		"flannel_cni": "0.28.9", "flanneld": "0.28.9"}
	if d.os == "linux" {
		out["runc"] = "1.3.0"
	}
	if d.has("old") {
		out["kubernetes_node"], out["containerd"] = "1.23.17", "1.6.36"
	}
	for _, p := range d.parts {
		maps.Copy(out, p.artifacts)
	}
	for _, p := range d.parts {
		for _, name := range p.gone {
			delete(out, name)
		}
	}
	if d.has("old") && out["kubernetes_node"] > "1.24" {
		out["kubernetes_node"] = "1.22.17"
	}
	if d.has("installed") {
		delete(out, "docker")
		delete(out, "mcr")
	}
	return out
}

// text is the plan.
func (d drawn) text() string {
	need := d.needs()
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(need)) {
		version := ""
		file := d.has("artifact file") && name == "cni_plugins"
		if slices.Contains([]string{"cni_plugins", "nssm", "sdn_cni"}, name) && !file {
			version = fmt.Sprintf("  version = %q\n", need[name])
		}
		s := standInOf(name, need[name], d.os)
		origin := fmt.Sprintf("  sha256 = %q\n", s.sha256)
		if file {
			origin = fmt.Sprintf("  os = %q\n  arch = \"amd64\"\n  file = \"./mirror/%s\"\n  sha512 = %q\n",
				d.os, s.file, s.sha512)
		}
		fmt.Fprintf(&list, "artifact %q {\n%s%s}\n", name, version, origin)
	}
	runtime, network := "containerd", "flannel"
	for _, name := range []string{"docker", "mcr"} {
		if d.has(name) {
			runtime = name
		}
	}
	runtimeText := d.block("runtime " + runtime)
	if v, ok := need[runtime]; ok {
		runtimeText = fmt.Sprintf("version = %q\n%s", v, runtimeText)
	}
	if runtime != "containerd" && d.has("installed") {
		runtimeText = "installed = true\n" + runtimeText
	}
	networkText := d.block("network flannel")
	if _, ok := need["flanneld"]; ok {
		networkText = fmt.Sprintf("version = %q\n%s", need["flanneld"], networkText)
	} else {
		network, networkText = "none", d.block("network none")
	}
	profile := d.block("profile")
	for _, name := range []string{"host", "services", "firewall", "kubelet", "kube_proxy"} {
		profile += "\n" + d.wrapped(name)
	}
	build := map[string]string{"windows": `build = "10.0.20348"`}[d.os]
	return fmt.Sprintf(`cluster "demo" {
  kubernetes = %q
  api_server = "https://10.0.0.10:6443"
  sandbox    = ".sandbox/cluster"
  %s
}
runtime %q {
  %s
}
network %q {
  %s
}
mirror { path = "./mirror" }
%s
profile "p" {
  os = %q
  %s
}
node "n" {
  name    = "win-1"
  profile = profile.p
  %s
  connection "sandbox" {
    path  = ".sandbox/win-1"
    %s
    ip    = "192.0.2.11"
    %s
  }
}
%s
%s
%s
`, need["kubernetes_node"], d.block("cluster"), runtime, runtimeText, network, networkText, list.String(), d.os,
		profile,
		d.block("node"), build, d.block("connection"), d.wrapped("manifests"), d.block("top"), d.block("steps"))
}

// write puts the plan in place of the world's, with the artifacts that it needs.
func (w *world) write(d drawn) {
	w.t.Helper()
	need := d.needs()
	files := []standIn{toolsArchive, ownProgram}
	for name, version := range need {
		files = append(files, standInOf(name, version, d.os))
	}
	for _, s := range files {
		if err := os.WriteFile(filepath.Join(w.dir, "mirror", s.file), s.bytes, 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	config := sandbox.ClusterConfig{Dir: filepath.Join(w.dir, ".sandbox", "cluster")}
	if d.has("old") { // what counts is how the cluster was made
		config.Version = "v1.23.17"
	}
	if d.has("pod_cidr") {
		config.PodCIDR = "10.200.0.0/16"
	}
	c, err := sandbox.OpenCluster(w.t.Context(), config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.writeLogins()
	if d.has("join kubeconfig") {
		folder := filepath.Join(w.dir, ".sandbox", "kubeconfigs")
		text, err := c.Kubeconfig(w.t.Context(), "win-1", "https://10.0.0.10:6443")
		name := filepath.Join(folder, "win-1.conf")
		if _, there := os.Stat(name); there != nil && err == nil {
			err = errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(name, text, 0o600))
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "quickstart.join.hcl"), []byte(d.text()), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// compiled is the plan of the world, or what is wrong with it.
func (w *world) compiled() (*plan.Compiled, error) {
	p, diags := plan.Load(w.dir, plan.Options{Version: "0.1.0", Agent: w.program, Self: w.program, Env: drawnEnv})
	if diags.HasErrors() {
		return nil, diags
	}
	c, diags := p.Compile()
	if diags.HasErrors() {
		return nil, diags
	}
	return c, nil
}

// programsOf are the members of the archives. In a version whose last number is odd the last of them is missing.
var programsOf = map[string][]string{
	"kubernetes_node": {"kubernetes/node/bin/kubelet", "kubernetes/node/bin/kube-proxy",
		"kubernetes/node/bin/kubeadm",
		"kubernetes/node/bin/kube-log-runner", "kubernetes/node/bin/kubectl"},
	"containerd": {"bin/containerd", "bin/containerd-shim-runhcs-v1", "bin/containerd-shim-runc-v2", "bin/ctr",
		"bin/containerd-stress"},
	"cni_plugins": {"./host-local", "./win-bridge", "./win-overlay", "./bridge", "./loopback", "./portmap",
		"./dhcp",
		"./vlan"},
	"crictl":  {"crictl"},
	"sdn_cni": {"nat", "sdnbridge", "sdnoverlay"},
	"docker":  {"docker/docker", "docker/dockerd"},
	"mcr":     {"docker/docker", "docker/dockerd"},
	"nssm":    {"nssm-2.24/win32/nssm", "nssm-2.24/win64/nssm"},
}

// mayLack are the members without which every version does.
var mayLack = []string{"bin/containerd-stress", "./vlan"}

// standIn is an artifact of which a sandbox plays the programs.
type standIn struct {
	file, sha256, sha512 string
	bytes                []byte
}

var standIns sync.Map

func standInOf(name, version, osName string) standIn {
	key := name + " " + version + " " + osName
	if s, ok := standIns.Load(key); ok {
		return s.(standIn)
	}
	file, _ := compat.Artifact(name, version, osName, "amd64")
	if file == "" {
		panic("no artifact " + key)
	}
	b := []byte("stand-in for " + key + ": a sandbox plays it\n")
	if members := programsOf[name]; members != nil {
		b = packed(file, members, version, osName)
	}
	s := standIn{file: file, bytes: b, sha256: fmt.Sprintf("%x", sha256.Sum256(b)),
		sha512: fmt.Sprintf("%x", sha512.Sum512(b))}
	standIns.Store(key, s)
	return s
}

func packed(file string, members []string, version, osName string) []byte {
	var b bytes.Buffer
	gz, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	z := zip.NewWriter(&b)
	tw := tar.NewWriter(gz)
	for _, m := range members {
		if slices.Contains(mayLack, m) && (version[len(version)-1]-'0')%2 == 1 {
			continue
		}
		if osName == "windows" {
			m += ".exe"
		}
		text := []byte("stand-in for " + path.Base(m) + " v" + version + "\n")
		if path.Ext(file) == ".zip" {
			f, fail := z.Create(m)
			_, more := f.Write(text)
			err = errors.Join(err, fail, more)
			continue
		}
		err = errors.Join(err, tw.WriteHeader(&tar.Header{Name: m, Mode: 0o755, Size: int64(len(text))}))
		_, more := tw.Write(text)
		err = errors.Join(err, more)
	}
	if path.Ext(file) == ".zip" {
		err = errors.Join(err, z.Close())
	} else {
		err = errors.Join(err, tw.Close(), gz.Close())
	}
	if err != nil {
		panic(err)
	}
	return b.Bytes()
}

// toolsArchive is what steps of the plans themselves unpack.
var toolsArchive = func() standIn {
	b := packed("tools.tar.gz", []string{"bin/tool", "bin/other", "doc/readme"}, "1.0.0", "windows")
	return standIn{file: "tools.tar.gz", bytes: b, sha256: fmt.Sprintf("%x", sha256.Sum256(b)),
		sha512: fmt.Sprintf("%x", sha512.Sum512(b))}
}()
