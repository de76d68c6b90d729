//go:build ignore

// generate writes the stand-in artifacts of the examples beside itself, under the
// names that the upstream projects use, and prints the digest of each:
//
//	cd examples/quickstart/mirror && go run generate.go
//
// The files have the layout of the real ones and nothing in them: the sandbox
// plays the programs. Another Go release may compress differently; then put the
// new digests into the plans of the examples.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"log"
	"os"
	"path"
)

// archives by name, with their members.
var archives = []struct {
	name    string
	members []string
}{
	{"kubernetes-node-windows-amd64.tar.gz", []string{
		"kubernetes/node/bin/kubeadm.exe", "kubernetes/node/bin/kube-log-runner.exe", "kubernetes/node/bin/kube-proxy.exe",
		"kubernetes/node/bin/kubectl.exe", "kubernetes/node/bin/kubelet.exe"}},
	{"containerd-2.2.1-windows-amd64.tar.gz", []string{"bin/containerd-shim-runhcs-v1.exe", "bin/containerd.exe", "bin/ctr.exe"}},
	{"cni-plugins-windows-amd64-v1.9.1.tgz", []string{"./host-local.exe", "./win-bridge.exe", "./win-overlay.exe"}},
	{"kubernetes-node-linux-amd64.tar.gz", []string{"kubernetes/node/bin/kube-proxy", "kubernetes/node/bin/kubelet"}},
	{"containerd-2.2.1-linux-amd64.tar.gz", []string{"bin/containerd", "bin/containerd-shim-runc-v2", "bin/ctr"}},
	{"cni-plugins-linux-amd64-v1.9.1.tgz", []string{"./bridge", "./host-local", "./loopback", "./portmap"}},
}

var programs = []string{"flannel-amd64.exe", "flanneld.exe", "flannel-amd64", "flanneld-amd64", "runc.amd64"}

func standIn(name string) []byte {
	return []byte("stand-in for " + name + ": a sandbox plays its programs\n")
}

func main() {
	log.SetFlags(0)
	for _, a := range archives {
		write(a.name, pack(a.members))
	}
	for _, p := range programs {
		write(p, standIn(p))
	}
}

func pack(members []string) []byte {
	var b bytes.Buffer
	gz, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	check(err)
	t := tar.NewWriter(gz)
	for _, m := range members {
		content := standIn(path.Base(m))
		check(t.WriteHeader(&tar.Header{Name: m, Mode: 0o755, Size: int64(len(content)), Format: tar.FormatUSTAR}))
		_, err := t.Write(content)
		check(err)
	}
	check(t.Close())
	check(gz.Close())
	return b.Bytes()
}

func write(name string, content []byte) {
	check(os.WriteFile(name, content, 0o644))
	fmt.Printf("%x  %s\n", sha256.Sum256(content), name)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
