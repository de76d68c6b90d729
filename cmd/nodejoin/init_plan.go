package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/compat"
)

// Versions that init uses by default. The compiler checks whether they fit each other,
// as it does for given ones.
const (
	usualKubernetes = "1.36.3"
	usualContainerd = "2.4.2"
	usualFlannel    = "0.28.9"
	usualCNIPlugins = "1.9.1"
	usualFlannelCNI = "1.9.1-flannel3"
)

// answers are what a first plan is made of.
type answers struct {
	Name, APIServer, Kubeconfig, Mirror                     string
	Kubernetes, Containerd, Flannel, CNIPlugins, FlannelCNI string
	User                                                    string
	Sandbox                                                 bool
	Hosts                                                   []initHost
	// Digests by artifact; empty if a variable gives them later.
	Digests map[string]string

	mirror string // Mirror as given, for this process
}

type initHost struct{ Name, Address string }

// questions in the order in which they are asked.
func (i *initializer) questions() []question {
	usual := func(s string) func() string { return func() string { return s } }
	inSandbox := func() bool { return i.Sandbox }
	return []question{
		{flag: "name", value: &i.Name, need: true, check: checkName, fallback: usual("demo"),
			help: "`name` of the cluster and of the plan's file",
			ask:  "Name of the cluster"},
		{flag: "api-server", value: &i.APIServer, need: true, check: checkAPIServer, fallback: i.usualAPIServer,
			help: "`URL` of the API server, as the nodes reach it",
			ask:  "URL of the API server, as the nodes reach it"},
		{flag: "kubeconfig", value: &i.Kubeconfig, check: needed, fallback: usual("~/.kube/config"), unless: inSandbox,
			help: "kubeconfig `file` on this machine, never copied to a node (default ~/.kube/config)",
			ask:  "kubeconfig on this machine (never copied to a node)"},
		{flag: "mirror", value: &i.Mirror, check: checkMirror, fallback: usual(""),
			help: "`folder` with the artifacts under their upstream file names (default: hosts download them from upstream)",
			ask:  "Folder with the artifacts under their upstream names (empty: hosts download them from upstream)"},
		{flag: "kubernetes", value: &i.Kubernetes, check: checkVersion, fallback: usual(usualKubernetes),
			help: "`version` of the node components (default " + usualKubernetes + ")",
			ask:  "Version of Kubernetes on the nodes"},
		{flag: "containerd", value: &i.Containerd, check: checkVersion,
			help:     "`version` of containerd (default: that of the mirror, or " + usualContainerd + ")",
			ask:      "Version of containerd",
			fallback: func() string { return i.inMirror(compat.ContainerdName, usualContainerd) }},
		{flag: "flannel", value: &i.Flannel, check: checkVersion, fallback: usual(usualFlannel),
			help: "`version` of flannel (default " + usualFlannel + ")",
			ask:  "Version of flannel"},
		{flag: "cni-plugins", value: &i.CNIPlugins, check: checkVersion,
			help:     "`version` of the CNI plugins (default: that of the mirror, or " + usualCNIPlugins + ")",
			ask:      "Version of the CNI plugins",
			fallback: func() string { return i.inMirror(compat.CNIPlugins, usualCNIPlugins) }},
		{flag: "flannel-cni", value: &i.FlannelCNI, check: checkVersion, fallback: usual(usualFlannelCNI),
			help:   "`version` of flannel's CNI plugin (default " + usualFlannelCNI + ")",
			ask:    "Version of flannel's CNI plugin",
			unless: func() bool { return i.Mirror != "" }}, // no file name has it
		{flag: "user", value: &i.User, check: needed, fallback: usual("Administrator"), unless: inSandbox,
			help: "`user` to log in as on the machines (default Administrator)",
			ask:  "User to log in as on the machines"},
	}
}

// usualAPIServer is an address in a sandbox, where any will do, and else "".
func (i *initializer) usualAPIServer() string {
	if i.Sandbox {
		return "https://10.0.0.10:6443"
	}
	return ""
}

var (
	planName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)
	nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`) // RFC 1123
)

func checkName(s string) error {
	if !planName.MatchString(s) {
		return fmt.Errorf("%q is not a valid name: use letters, digits, '-' and '_', a letter or digit first, at most 63", s)
	}
	return nil
}

func checkAPIServer(s string) error {
	if u, err := url.Parse(s); err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Path != "" && u.Path != "/" {
		return fmt.Errorf("%q is not the URL of an API server; write https://HOST:PORT", s)
	}
	return nil
}

func checkVersion(s string) error {
	if _, err := compat.Parse(s); err != nil {
		return fmt.Errorf("%q is not a version; write it as 1.2.3", s)
	}
	return nil
}

func needed(s string) error {
	if s == "" {
		return errors.New("it must not be empty")
	}
	return nil
}

func checkMirror(s string) error {
	if s == "" {
		return nil
	}
	fi, err := os.Stat(ownFile(s))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist", s)
	case err != nil:
		return err
	case !fi.IsDir():
		return fmt.Errorf("%s is not a folder", s)
	}
	return nil
}

func parseHost(s string, sandbox bool) (initHost, error) {
	name, address, ok := strings.Cut(s, "=")
	name, address = strings.TrimSpace(name), strings.TrimSpace(address)
	switch {
	case !ok || address == "" || strings.ContainsAny(address, " \t"):
		return initHost{}, errors.New("it must be name=address, for example win-1=10.0.0.21")
	case !nodeName.MatchString(name):
		return initHost{}, fmt.Errorf("%q is not a node name: use lower-case letters, digits, '-' and '.' (RFC 1123)", name)
	}
	if _, err := netip.ParseAddr(address); sandbox && err != nil {
		return initHost{}, fmt.Errorf("%q is not an IP address, which a sandbox needs", address)
	}
	return initHost{name, address}, nil
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
func (i *initializer) inMirror(artifact, usual string) string {
	const mark = "0.0.0"
	pattern, _ := compat.Artifact(artifact, mark, "windows", "amd64")
	before, after, ok := strings.Cut(pattern, mark)
	if i.Mirror == "" || !ok {
		return usual
	}
	entries, err := os.ReadDir(ownFile(i.Mirror))
	if err != nil {
		return usual // digests reports the error
	}
	var found []string
	for _, e := range entries {
		v, ok := strings.CutPrefix(e.Name(), before)
		if v, ok2 := strings.CutSuffix(v, after); ok && ok2 && checkVersion(v) == nil {
			found = append(found, v)
		}
	}
	if len(found) != 1 {
		return usual
	}
	return found[0]
}

// locate turns paths relative to this folder into paths relative to the plan.
func (i *initializer) locate(folder string) error {
	i.mirror = ownFile(i.Mirror)
	base, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	for _, p := range []*string{&i.Mirror, &i.Kubeconfig} {
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

// version of an artifact.
func (i *initializer) version(artifact string) string {
	return map[string]string{
		compat.KubernetesNode: i.Kubernetes, compat.ContainerdName: i.Containerd, compat.CNIPlugins: i.CNIPlugins,
		compat.FlannelCNI: cmp.Or(i.FlannelCNI, usualFlannelCNI), compat.Flanneld: i.Flannel,
	}[artifact]
}

// initArtifacts are those of a first plan.
var initArtifacts = []string{compat.KubernetesNode, compat.ContainerdName, compat.CNIPlugins, compat.FlannelCNI,
	compat.Flanneld}

// digests computes the digests of the artifacts in the mirror. A sandbox can do without.
func (i *initializer) digests() error {
	if i.mirror == "" {
		return nil
	}
	found, missing := map[string]string{}, ""
	for _, name := range initArtifacts {
		file, address := compat.Artifact(name, i.version(name), "windows", "amd64")
		sum, err := fileDigest(filepath.Join(i.mirror, file))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing += fmt.Sprintf("\n  %s (%s)\n    %s", file, name, address)
		case err != nil:
			return fmt.Errorf("--mirror: %w", err)
		default:
			found[name] = sum
		}
	}
	switch {
	case missing == "":
		i.Digests = found
	case !i.Sandbox:
		return fmt.Errorf("--mirror %s: these artifacts are missing there. Download them, and keep their file names:%s",
			i.mirror, missing)
	}
	return nil
}

func fileDigest(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// anyDigests is a value of --var in place of digests that are not known yet.
func anyDigests() string {
	var parts []string
	for _, name := range initArtifacts {
		parts = append(parts, name+` = "`+strings.Repeat("0", 64)+`"`)
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

//go:embed init.tmpl
var initTemplate string

// text is the plan, before formatting.
func (i *initializer) text(folder string) []byte {
	t := template.Must(template.New("init").Funcs(template.FuncMap{
		"hcl": func(s string) string { return string(hclwrite.TokensForValue(cty.StringVal(s)).Bytes()) },
		"digest": func(name string) string {
			if d := i.Digests[name]; d != "" {
				return `"` + d + `"`
			}
			return `var.sha256["` + name + `"]`
		},
		"url": func(name string) string {
			_, address := compat.Artifact(name, i.version(name), "windows", "amd64")
			return address
		},
		"artifacts": func() []string { return initArtifacts },
	}).Parse(initTemplate))
	var b bytes.Buffer
	data := struct {
		answers
		Folder string
	}{i.answers, comment(folder)}
	if err := t.Execute(&b, data); err != nil {
		panic(fmt.Sprintf("init: %v", err)) // a bug in the template
	}
	return b.Bytes()
}

// comment keeps s on one line.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return '?'
		}
		return r
	}, s)
}
