//go:build ignore

// generate writes the stand-in artifacts of the examples beside itself, under the
// names that the upstream projects use, and prints the digest of each:
//
//	cd examples/quickstart/mirror && go run generate.go
//
// The files have the layout of the real ones and nothing in them: the sandbox
// plays the programs. Another Go release may compress differently; then lock the plans
// of the examples again (nodejoin lock --upgrade).
package main

import (
	"archive/tar"
	"archive/zip"
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
	{"containerd-2.2.1-windows-amd64.tar.gz",
		[]string{"bin/containerd-shim-runhcs-v1.exe", "bin/containerd.exe", "bin/ctr.exe"}},
	{"cni-plugins-windows-amd64-v1.9.1.tgz", []string{"./host-local.exe", "./win-bridge.exe", "./win-overlay.exe"}},
	{"kubernetes-node-linux-amd64.tar.gz", []string{"kubernetes/node/bin/kube-proxy", "kubernetes/node/bin/kubeadm",
		"kubernetes/node/bin/kubelet"}},
	{"containerd-2.2.1-linux-amd64.tar.gz", []string{"bin/containerd", "bin/containerd-shim-runc-v2", "bin/ctr"}},
	{"cni-plugins-linux-amd64-v1.9.1.tgz", []string{"./bridge", "./host-local", "./loopback", "./portmap"}},
	{"crictl-v1.36.0-windows-amd64.tar.gz", []string{"crictl.exe"}},
	{"windows-container-networking-cni-amd64-v0.3.1.zip", []string{"nat.exe", "sdnbridge.exe", "sdnoverlay.exe"}},
	{"docker-20.10.24.zip", []string{"docker/docker.exe", "docker/dockerd.exe"}},
	{"docker-23.0.1.zip", []string{"docker/docker.exe", "docker/dockerd.exe"}}, // Mirantis'
	{"nssm-2.24.zip", []string{"nssm-2.24/win32/nssm.exe", "nssm-2.24/win64/nssm.exe"}},
}

var programs = []string{"flannel-amd64.exe", "flanneld.exe", "flannel-amd64", "flanneld-amd64", "runc.amd64",
	"csi-proxy.exe", "windows_exporter-0.31.3-amd64.exe"}

func standIn(name string) []byte {
	return []byte("stand-in for " + name + ": a sandbox plays its programs\n")
}

func main() {
	log.SetFlags(0)
	for _, a := range archives {
		if path.Ext(a.name) == ".zip" {
			write(a.name, packZip(a.members))
		} else {
			write(a.name, pack(a.members))
		}
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

func packZip(members []string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, m := range members {
		f, err := z.Create(m) // without a time, so that the archive is always the same
		check(err)
		_, err = f.Write(standIn(path.Base(m)))
		check(err)
	}
	check(z.Close())
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
