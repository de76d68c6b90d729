//go:build ignore

// The generator of data/*.txt: what the node components of each Kubernetes
// version take, read from their sources.
//
//	go run gen.go gen_flags.go gen_gates.go gen_fields.go [-modules DIR]
//
// It fetches the source of the last patch of every minor version as Go modules
// and reads them with go/parser; nothing of it is compiled or run. Once they are in
// the module cache it needs no network (GOPROXY=off). DIR may hold trees that are
// unpacked already, as path@version.
//
// For a new Kubernetes version add its last patch to versions, run, and compare
// with what the real programs print for --help. Then go through the tables that
// name their source in kubernetesTable, containerdTested and the others that end
// with kubernetesNewest and containerdNewest.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// versions are the last patches of each minor version that the module proxy has.
var versions = []string{
	"1.14.10", "1.15.12", "1.16.15", "1.17.17", "1.18.20", "1.19.16", "1.20.15", "1.21.14",
	"1.22.17", "1.23.17", "1.24.17", "1.25.16", "1.26.15", "1.27.16", "1.28.15", "1.29.15",
	"1.30.14", "1.31.14", "1.32.13", "1.33.13", "1.34.4", "1.35.4", "1.36.3", "1.37.2",
}

// nearest is the version of the staging modules (k8s.io/apiserver and so on) of a release, if the module
// proxy lacks the one with the release's own patch level.
var nearest = map[string]string{"1.18.20": "0.18.19"}

var modules = flag.String("modules", "", "directory with unpacked modules")

func main() {
	flag.Parse()
	log.SetFlags(0)
	writeFlags()
	writeGates()
	writeFields()
}

func minorNumber(v string) int {
	n, _ := strconv.Atoi(strings.Split(v, ".")[1])
	return n
}

func minorOf(v string) string { return v[:strings.LastIndexByte(v, '.')] }

func kubernetes(v string) string { return must(module("k8s.io/kubernetes", v)) }

// staging returns the directory of a staging module of a Kubernetes version. 1.14 had no go.mod, so its
// archive contains the staging tree itself.
func staging(name, v string) (string, error) {
	if minorNumber(v) == 14 {
		return filepath.Join(kubernetes(v), "staging/src/k8s.io", name), nil
	}
	if n, ok := nearest[v]; ok {
		return module("k8s.io/"+name, n)
	}
	return module("k8s.io/"+name, "0"+v[1:])
}

func must(dir string, err error) string {
	if err != nil {
		log.Fatal(err)
	}
	return dir
}

func module(path, version string) (string, error) {
	if dir := filepath.Join(*modules, path+"@v"+version); *modules != "" {
		if _, err := os.Stat(dir); err == nil {
			return dir, nil
		}
	}
	cmd := exec.Command("go", "mod", "download", "-json", path+"@v"+version)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	out, err := cmd.Output()
	var m struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &m); jsonErr != nil || m.Dir == "" {
		return "", fmt.Errorf("%s@v%s: %v %s", path, version, err, m.Error)
	}
	return m.Dir, nil
}

func header(b *bytes.Buffer, what string) {
	fmt.Fprintf(b, "# %s, Kubernetes %s to %s. Written by gen.go from the sources of\n", what, minorOf(versions[0]),
		minorOf(versions[len(versions)-1]))
	fmt.Fprintf(b, "# v%s.\n", strings.Join(versions, " v"))
}

// spans divides the versions in which a thing is present into runs: the first version of each, and the first
// one after it without the thing. "-" means none.
func spans(present []string, each func(since, until string, in []string)) {
	for i := 0; i < len(versions); {
		if !slices.Contains(present, versions[i]) {
			i++
			continue
		}
		since, until, start := "-", "-", i
		if i > 0 {
			since = minorOf(versions[i])
		}
		for ; i < len(versions) && slices.Contains(present, versions[i]); i++ {
		}
		if i < len(versions) {
			until = minorOf(versions[i])
		}
		each(since, until, versions[start:i])
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func save(file string, b *bytes.Buffer) {
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}
