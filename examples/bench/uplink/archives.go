//go:build linux

package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// settings are what the plan's templates want beside the hosts.
var settings = map[string]any{"api_server": "https://10.0.0.10:6443", "cluster_dns": "10.96.0.10",
	"cluster_cidr": "10.244.0.0/16", "service_cidr": "10.96.0.0/12", "pause_image": "pause:3.10",
	"bootstrap_token": "none", "kube_version": "1.36.3"}

// makeArchives writes four archives of size MB together, which cannot be compressed, and returns the variables of
// run.sh.
func makeArchives(dir string, size int) ([]byte, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	vars, list := map[string]any{}, []any{}
	for name, value := range settings {
		vars[name] = value
	}
	for _, a := range []struct {
		name  string
		share float64
	}{{"crictl", 1}, {"cni-plugins", 20}, {"containerd", 50}, {"kubernetes-node", 100}} {
		sum, err := makeArchive(filepath.Join(dir, a.name+".tar.gz"), a.name, int64(a.share/171*float64(size)*1e6))
		if err != nil {
			return nil, err
		}
		list = append(list, map[string]any{"name": a.name, "sha256": sum})
	}
	vars["archives"] = list
	return json.MarshalIndent(vars, "", " ")
}

func makeArchive(file, name string, size int64) (sum string, err error) {
	f, err := os.Create(file)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	z, err := gzip.NewWriterLevel(io.MultiWriter(f, h), gzip.NoCompression)
	if err != nil {
		return "", err
	}
	t := tar.NewWriter(z)
	err = t.WriteHeader(&tar.Header{Name: name + "/bin/" + name, Mode: 0o755, Size: size})
	if err == nil {
		_, err = io.CopyN(t, rand.Reader, size)
	}
	err = errors.Join(err, t.Close(), z.Close(), f.Close())
	return hex.EncodeToString(h.Sum(nil)), err
}
