package recipe

import (
	"slices"
	"time"

	"nodejoin/plan/signature"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// Settings are a plan's settings of the machine itself, as opposed to the node on it.
type Settings struct {
	Proxy    *Proxy // nil = none
	Firewall Firewall
	Services Services
	CSIProxy *CSIProxy // nil = none
	Exporter *Exporter // nil = none
	Reboot   *Reboot   // nil = the plan does not mention it
	Guard    Guard
	Follow   *Follow // nil = it follows no plan
	Images   *Images // nil = none
	// CredentialProviders are sorted by their names.
	CredentialProviders []CredentialProvider
	// Steps are the settings that are a state by themselves: files, registry values.
	Steps []Setting
}

// Setting is a step that does not depend on the node.
type Setting struct {
	ID, Title string
	Kind      string
	Args      any    // argument struct of the kind
	Keep      bool   // what it makes stays when the plan no longer has it
	Source    string // "plan.join.hcl:12,3"
}

// Reboot says whether the machine may be rebooted for changes that need it.
type Reboot struct {
	Policy  string   // of steps.Reboot; "" = never
	Windows []string // of steps.Reboot
	Source  string
}

// Proxy is how the machine and its programs reach the outside.
type Proxy struct {
	HTTP, HTTPS string   // URLs; "" = none
	NoProxy     []string // besides what every node of the cluster needs
	Sensitive   bool     // the URLs are never printed
	Addresses   []string // HOST:PORT of URLs that are not secret
	Keep        bool
	Source      string
}

// Firewall is what a plan says about the firewall rules of a node.
type Firewall struct {
	Off    bool     // make no rules
	Keep   bool     // the node's own rules stay when the plan no longer has them
	Remote []string // addresses and networks that the node's own rules admit; empty = any
	Rules  []FirewallRule
}

// FirewallRule admits packets to the machine.
type FirewallRule struct {
	Name, Protocol, Ports string
	Remote                []string
	Keep                  bool
	Source                string
}

// Services is how the programs of a Windows node run as services.
type Services struct {
	// NSSM: kubelet, flanneld and kube-proxy run under nssm rather than as services of their own.
	NSSM     bool
	Keep     bool   // nssm stays when the plan no longer has it
	Priority string // of the kubelet, one of Priorities; "" = normal
	LogDir   string // folder of the logs; "" = winLog
	// LogSize limits a log file, in MiB; 0 = 100. LogAge is how long a rotated file is kept, a Go duration; "" =
	// 168h.
	LogSize int64
	LogAge  string
	// RestartDelay is the time until a failed service is restarted, 0 = 10 s; RestartReset the time without a
	// failure after which the failure count is reset, 0 = 24 h.
	RestartDelay, RestartReset time.Duration
}

// Priorities maps the words for a process priority to the name of its class, for the kubelet, and to its
// number, for nssm (winbase.h).
var Priorities = map[string]struct {
	Class  string
	number uint64
}{
	"normal":       {"NORMAL_PRIORITY_CLASS", 0x20},
	"above_normal": {"ABOVE_NORMAL_PRIORITY_CLASS", 0x8000},
	"high":         {"HIGH_PRIORITY_CLASS", 0x80},
}

// PriorityFlag is the kubelet's flag for its own priority.
const PriorityFlag = "windows-priorityclass"

func (s Services) logSize() int64 {
	if s.LogSize == 0 {
		return 100
	}
	return s.LogSize
}

func (s Services) logAge() string {
	if s.LogAge == "" {
		return "168h"
	}
	return s.LogAge
}

// recovery returns the service with its recovery settings.
func (s Services) recovery(v *kinds.Service) *kinds.Service {
	if s.RestartDelay == 0 && s.RestartReset == 0 || len(v.Recovery) == 0 {
		return v
	}
	out := *v
	out.Recovery = slices.Clone(v.Recovery)
	for i := range out.Recovery {
		if s.RestartDelay != 0 {
			out.Recovery[i].Delay = s.RestartDelay
		}
	}
	if s.RestartReset != 0 {
		out.RecoveryReset = uint32(s.RestartReset / time.Second)
	}
	return &out
}

// CSIProxy is csi-proxy as a service. Storage plugins in unprivileged pods use it to work on the machine.
type CSIProxy struct {
	Version string
	// WorkingDirs are additional folders, besides the kubelet's, in which it may work.
	WorkingDirs []string
	Keep        bool // it stays when the plan no longer has it
	Source      string
}

// BundledImage is an image that comes with the plan.
type BundledImage struct {
	Name    string
	Archive steps.Source // an OCI image layout in a tar archive, on the controller
}

// Images are images that the runtime has before the kubelet starts, besides the pause image.
type Images struct {
	Pull   []string
	Source string
}

// CredentialProvider is a program that the kubelet asks for credentials of registries.
type CredentialProvider struct {
	Name    string // of its block
	Program string // as the kubelet calls it, "" = the usual one
	Source  steps.Source
	// What the kubelet passes to it and when; "" and nil = the usual.
	MatchImages []string
	Cache       string // a Go duration
	Args        []string
	Env         map[string]string
	Sensitive   bool           // Env is never printed
	Config      map[string]any // further fields
	Origin      string         // "plan.join.hcl:12,3"
}

// Exporter is windows_exporter as a service, which exports metrics of the machine.
type Exporter struct {
	Version    string
	Port       uint16
	Collectors []string // empty = its defaults
	Textfile   string   // folder of *.prom files; "" = none
	Keep       bool
	Source     string
}

// Guard is what the service of a node does between two applies.
type Guard struct {
	Off         bool
	Interval    time.Duration // 0 = guardInterval
	MetricsPort uint16        // on the loopback, or with a certificate on all addresses; 0 = none
	Certificate string        // of the metrics, in PEM; "" = they are not served over TLS
	Key         string        // of the certificate, in PEM
	Textfile    string        // for windows_exporter; "" = none
}

// Follow is the plan that a node follows by itself.
type Follow struct {
	Plan, Source string // as 'nodejoin follow' takes them
	Signers      string // text of the file of trusted keys; "" = none
	// Sigstore is whose signatures of Sigstore count, without the path of its trust root; nil = nobody's.
	Sigstore  *signature.Trust
	TrustRoot string        // its text; "" = that of this nodejoin
	Login     *FollowLogin  // at the server of Source; nil = none
	Windows   []string      // times of the week; empty = any time
	Jitter    string        // a Go duration; "" = none
	Interval  time.Duration // between two looks at the source; 0 = followInterval
	Values    map[string]string
	Sensitive bool         // Values are never printed
	Evict     bool         // its account may evict pods
	Program   steps.Source // of nodejoin; without an address and a file it is SelfArtifact
}

// FollowLogin is a user with a password, or a token, as 'nodejoin follow' reads it.
type FollowLogin struct {
	Host     string `json:"host,omitempty"` // of Source, as its address has it: no other one gets the login; "" = any
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	Token    string `json:"token,omitempty"`
}

// given reports whether the plan says where the program comes from.
func (f *Follow) given() bool { return f.Program.URL != "" || f.Program.File != "" }
