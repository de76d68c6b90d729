package firstplan

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"nodejoin/plan/compat"
)

// artifacts lists what the hosts of each operating system need.
func (a *Answers) artifacts() []Artifact {
	var out []Artifact
	for _, os := range a.Systems() {
		names := []string{compat.KubernetesNode, compat.ContainerdName, compat.CNIPlugins, compat.FlannelCNI,
			compat.Flanneld}
		if os == "linux" {
			names = append(names, compat.Runc)
		}
		for _, name := range names {
			out = append(out, Artifact{name, os})
		}
	}
	return out
}

// version of an artifact.
func (a *Answers) version(artifact string) string {
	return map[string]string{
		compat.KubernetesNode: a.Kubernetes, compat.ContainerdName: a.Containerd, compat.CNIPlugins: a.CNIPlugins,
		compat.FlannelCNI: cmp.Or(a.FlannelCNI, usualFlannelCNI), compat.Flanneld: a.Flannel,
		compat.Runc: cmp.Or(a.Runc, usualRunc),
	}[artifact]
}

// upstream is the file name and the URL of an artifact.
func (a *Answers) upstream(f Artifact) (file, address string) {
	return compat.Artifact(f.Name, a.version(f.Name), f.OS, "amd64")
}

// ownFile is a path of the plan language, which knows "~/", as this process opens it.
func ownFile(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return p
}

// inMirror is the version in the name of the artifact's file in the mirror, or the usual
// one if the mirror does not have exactly one such file.
func (a *Answers) inMirror(artifact, usual string) string {
	const mark = "0.0.0"
	systems := a.Systems()
	if len(systems) == 0 {
		return usual
	}
	pattern, _ := compat.Artifact(artifact, mark, systems[0], "amd64")
	before, after, ok := strings.Cut(pattern, mark)
	if a.Mirror == "" || !ok {
		return usual
	}
	entries, err := os.ReadDir(ownFile(a.Mirror))
	if err != nil {
		return usual // inFolder reports the error
	}
	var found []string
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), before)
		if v, ok2 := strings.CutSuffix(rest, after); ok && ok2 && checkVersion(v) == nil {
			found = append(found, v)
		}
	}
	if len(found) != 1 {
		return usual
	}
	return found[0]
}

// locate turns paths relative to this folder into paths relative to the plan.
func (a *Answers) locate(folder string) error {
	a.mirror = ownFile(a.Mirror)
	base, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	for _, p := range []*string{&a.Mirror, &a.Kubeconfig} {
		if *p == "" || filepath.IsAbs(*p) || strings.HasPrefix(*p, "~/") {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(base, abs)
		if err != nil { // another drive
			*p = abs
			continue
		}
		if rel = filepath.ToSlash(rel); !strings.HasPrefix(rel, "..") {
			rel = "./" + rel
		}
		*p = rel
	}
	return nil
}

// inFolder reports, all at once, artifacts that the mirror lacks. A sandbox can do without for now.
func (a *Answers) inFolder() error {
	if a.mirror == "" || a.Sandbox {
		return nil
	}
	missing := ""
	for _, f := range a.artifacts() {
		file, address := a.upstream(f)
		switch _, err := os.Stat(filepath.Join(a.mirror, file)); {
		case errors.Is(err, fs.ErrNotExist):
			missing += fmt.Sprintf("\n  %s (%s)\n    %s", file, f.Name, address)
		case err != nil:
			return fmt.Errorf("--mirror: %w", err)
		}
	}
	if missing == "" {
		return nil
	}
	return fmt.Errorf("--mirror %s: these artifacts are missing there. Download them, and keep their file names:%s",
		a.mirror, missing)
}
