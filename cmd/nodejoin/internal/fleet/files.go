package fleet

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"nodejoin/plan"
)

// File is a file of the plan.
type File struct {
	Key  string // in its ConfigMap or Secret
	Path string // relative to the folder that is mounted
	Data []byte
}

// Path is a place in a pod.
type Path struct {
	At     string // absolute
	InPlan string // relative to the folder of the plan; "" = it is elsewhere
}

// Folders of the image (examples/internal/release makes it so).
const (
	planFolder = "/plan"
	homeFolder = "/home/nodejoin"
)

// mostBytes bounds what the files of a plan may have together: a ConfigMap has at most 1 MiB (Kubernetes
// documentation, "ConfigMaps"), and its names count too.
const mostBytes = 1000 << 10

// readFiles reads the files of the plan. Those of values may have secrets, and so may others that have one of secrets.
func readFiles(dir, root string, files, secrets []string, most int) (open, values []File, err error) {
	if root != dir {
		return nil, nil, fmt.Errorf("the plan reads files outside its folder, in %s: the pods of a fleet have the folder "+
			"of the plan alone. Move those files into it", root)
	}
	size := map[bool]int{}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(files))) {
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return nil, nil, err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, err
		}
		file := File{Path: filepath.ToSlash(rel), Data: b}
		file.Key = key(file.Path)
		secret := !plan.IsFile(name) && strings.Contains(filepath.Base(name), ".joinvars") || hasSecret(string(b), secrets)
		if secret {
			values = append(values, file)
		} else {
			open = append(open, file)
		}
		size[secret] += len(file.Key) + len(b)
		switch {
		case size[true] > mostBytes:
			return nil, nil, fmt.Errorf("the plan's files with values and secrets have more than %d bytes together, which is "+
				"what a Secret holds", mostBytes)
		case size[false] > most && most == mostBytes:
			return nil, nil, fmt.Errorf("the files of the plan have more than %d bytes together, which is what an object of "+
				"Kubernetes holds: give --plan-image for a registry that has the plan, or take large files out of its folder",
				most)
		case size[false] > most:
			return nil, nil, fmt.Errorf("the files of the plan have more than %d bytes together: take large ones out of its "+
				"folder, for example a mirror, which a registry can be", most)
		}
	}
	return open, values, nil
}

// hasSecret reports whether a file has one of the secrets. A short one could be in any text by chance: it counts where
// the file has nothing else.
func hasSecret(text string, secrets []string) bool {
	const long = 8
	return slices.ContainsFunc(secrets, func(s string) bool {
		s = strings.TrimSpace(s)
		return s != "" && (strings.TrimSpace(text) == s || len(s) >= long && strings.Contains(text, s))
	})
}

// key is the path of a file as a key of a ConfigMap, which has letters, digits, '-', '_' and '.'.
func key(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.':
			b.WriteRune(r)
		case r == '/':
			b.WriteString("__")
		default:
			fmt.Fprintf(&b, "_%x_", r)
		}
	}
	return b.String()
}

// inPod is where a file of this machine is in a pod, if it is there at all.
func inPod(file, dir, home string) Path {
	if rel, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(rel) {
		rel = filepath.ToSlash(rel)
		return Path{At: path.Join(planFolder, rel), InPlan: rel}
	}
	if rel, err := filepath.Rel(home, file); home != "" && err == nil && filepath.IsLocal(rel) {
		return Path{At: path.Join(homeFolder, filepath.ToSlash(rel))}
	}
	return Path{At: filepath.ToSlash(file)}
}

// portOf is the port of an address; that of its scheme where it gives none.
func portOf(address string) int {
	u, err := url.Parse(address)
	if err == nil && u.Port() != "" {
		if n, err := strconv.Atoi(u.Port()); err == nil {
			return n
		}
	}
	if err == nil {
		switch u.Scheme {
		case "ssh":
			return 22
		case "http":
			return 80
		}
	}
	return 443
}
