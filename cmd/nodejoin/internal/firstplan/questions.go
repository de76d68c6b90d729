package firstplan

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"nodejoin/plan/compat"
)

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
	without := func(os string) func() bool { return func() bool { return len(a.HostsOf(os)) == 0 } }
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
		{Flag: "runc", Value: &a.Runc, Check: checkVersion, Default: usual(usualRunc),
			Help:   "`version` of runc, for Linux (default " + usualRunc + ")",
			Text:   "Version of runc",
			unless: func() bool { return a.Mirror != "" || without("linux")() }},
		{Flag: "user", Value: &a.User, Check: needed, Default: usual("Administrator"),
			unless: func() bool { return a.Sandbox || without("windows")() },
			Help:   "`user` to log in as on the Windows machines (default Administrator)",
			Text:   "User to log in as on the Windows machines"},
		{Flag: "linux-user", Value: &a.LinuxUser, Check: needed, Default: usual("root"),
			unless: func() bool { return a.Sandbox || without("linux")() },
			Help:   "`user` to log in as on the Linux machines; it must be root (default root)",
			Text:   "User to log in as on the Linux machines (it must be root)"},
	}
}

// usualAPIServer is an address for a sandbox, where any works, and otherwise "".
func (a *Answers) usualAPIServer() string {
	if a.Sandbox {
		return "https://10.0.0.10:6443"
	}
	return ""
}

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
