// Package firstplan makes the text of a first plan from the answers of a person.
package firstplan

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"

	"nodejoin/plan/compat"
)

// Default versions. The compiler checks whether they fit each other, as it does for given
// ones.
const (
	usualKubernetes = "1.36.3"
	usualContainerd = "2.4.2"
	usualFlannel    = "0.28.9"
	usualCNIPlugins = "1.9.1"
	usualFlannelCNI = "1.9.1-flannel3"
)

// Answers are what a first plan is made of.
type Answers struct {
	Name, APIServer, Kubeconfig, Mirror                     string
	Kubernetes, Containerd, Flannel, CNIPlugins, FlannelCNI string
	User                                                    string
	Sandbox                                                 bool
	Hosts                                                   []Host
	// Digests are the SHA-256 of the artifacts in the mirror, by name. Plan sets them; if they
	// are empty, the plan has a variable for them.
	Digests map[string]string

	mirror string // Mirror as this process opens it
}

// Host is a machine of the plan.
type Host struct{ Name, Address string }

// Question asks for one answer.
type Question struct {
	Flag, Help string // the flag that gives the answer, and its help
	Text       string // for the terminal
	Value      *string
	Default    func() string // after the answers before it are known
	Required   bool          // the default serves a sandbox and a prompt only
	Check      func(string) error

	unless func() bool // it does not apply; nil = it always does
}

// Applies reports whether the question makes sense with the answers so far.
func (q Question) Applies() bool { return q.unless == nil || !q.unless() }

// Questions returns the questions in the order in which they are asked.
func (a *Answers) Questions() []Question {
	usual := func(s string) func() string { return func() string { return s } }
	inSandbox := func() bool { return a.Sandbox }
	return []Question{
		{Flag: "name", Value: &a.Name, Required: true, Check: checkName, Default: usual("demo"),
			Help: "`name` of the cluster and of the plan's file",
			Text: "Name of the cluster"},
		{Flag: "api-server", Value: &a.APIServer, Required: true, Check: checkAPIServer, Default: a.usualAPIServer,
			Help: "`URL` of the API server, as the nodes reach it",
			Text: "URL of the API server, as the nodes reach it"},
		{Flag: "kubeconfig", Value: &a.Kubeconfig, Check: needed, Default: usual("~/.kube/config"), unless: inSandbox,
			Help: "kubeconfig `file` on this machine, never copied to a node (default ~/.kube/config)",
			Text: "kubeconfig on this machine (never copied to a node)"},
		{Flag: "mirror", Value: &a.Mirror, Check: checkMirror, Default: usual(""),
			Help: "`folder` with the artifacts under their upstream file names (default: hosts download them from upstream)",
			Text: "Folder with the artifacts under their upstream names (empty: hosts download them from upstream)"},
		{Flag: "kubernetes", Value: &a.Kubernetes, Check: checkVersion, Default: usual(usualKubernetes),
			Help: "`version` of the node components (default " + usualKubernetes + ")",
			Text: "Version of Kubernetes on the nodes"},
		{Flag: "containerd", Value: &a.Containerd, Check: checkVersion,
			Help:    "`version` of containerd (default: that of the mirror, or " + usualContainerd + ")",
			Text:    "Version of containerd",
			Default: func() string { return a.inMirror(compat.ContainerdName, usualContainerd) }},
		{Flag: "flannel", Value: &a.Flannel, Check: checkVersion, Default: usual(usualFlannel),
			Help: "`version` of flannel (default " + usualFlannel + ")",
			Text: "Version of flannel"},
		{Flag: "cni-plugins", Value: &a.CNIPlugins, Check: checkVersion,
			Help:    "`version` of the CNI plugins (default: that of the mirror, or " + usualCNIPlugins + ")",
			Text:    "Version of the CNI plugins",
			Default: func() string { return a.inMirror(compat.CNIPlugins, usualCNIPlugins) }},
		{Flag: "flannel-cni", Value: &a.FlannelCNI, Check: checkVersion, Default: usual(usualFlannelCNI),
			Help:   "`version` of flannel's CNI plugin (default " + usualFlannelCNI + ")",
			Text:   "Version of flannel's CNI plugin",
			unless: func() bool { return a.Mirror != "" }}, // no file name has it
		{Flag: "user", Value: &a.User, Check: needed, Default: usual("Administrator"), unless: inSandbox,
			Help: "`user` to log in as on the machines (default Administrator)",
			Text: "User to log in as on the machines"},
	}
}

// usualAPIServer is an address for a sandbox, where any works, and otherwise "".
func (a *Answers) usualAPIServer() string {
	if a.Sandbox {
		return "https://10.0.0.10:6443"
	}
	return ""
}

// AddHost adds a machine, given as name=address.
func (a *Answers) AddHost(s string) error {
	h, err := parseHost(s, a.Sandbox)
	if err != nil {
		return err
	}
	for _, o := range a.Hosts {
		switch {
		case o.Name == h.Name:
			return fmt.Errorf("there is already a machine %q", h.Name)
		case strings.EqualFold(o.Address, h.Address):
			return fmt.Errorf("the machine %q already has the address %s", o.Name, h.Address)
		}
	}
	a.Hosts = append(a.Hosts, h)
	return nil
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

func parseHost(s string, sandbox bool) (Host, error) {
	name, address, ok := strings.Cut(s, "=")
	name, address = strings.TrimSpace(name), strings.TrimSpace(address)
	switch {
	case !ok || address == "" || strings.ContainsAny(address, " \t"):
		return Host{}, errors.New("it must be name=address, for example win-1=10.0.0.21")
	case !nodeName.MatchString(name):
		return Host{}, fmt.Errorf("%q is not a node name: use lower-case letters, digits, '-' and '.' (RFC 1123)", name)
	}
	if _, err := netip.ParseAddr(address); sandbox && err != nil {
		return Host{}, fmt.Errorf("%q is not an IP address, which a sandbox needs", address)
	}
	return Host{name, address}, nil
}
