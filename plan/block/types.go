package block

import (
	"time"

	"nodejoin/steps"
	"nodejoin/steps/kube"
)

// Node is one machine to be joined.
type Node struct {
	Name    string // name of the Node object, RFC 1123
	Address string // "node.win-1": how --target and the output name it
	OS      string // "windows" or "linux"
	Arch    string // "amd64" or "arm64"
	DataDir string // nodejoin's own folder on the host; "" = default of the OS
	// ManagementIP is the address of the machine as the plan gives it; "" = the host's own fact.
	ManagementIP string
	// Interface is the adapter whose address is the machine's; "" = that of the default route, or of ManagementIP.
	Interface string
	// OnFailure is "keep", "rollback", or "" for the default: an upgrade is rolled back.
	OnFailure string
	// Build is the Windows build that the machine has at least, "10.0.20348"; "" = the plan
	// does not say it.
	Build      string
	Labels     map[string]string // that the plan gives the Node; not to be changed
	Taints     []kube.Taint
	Connection Connection
	Steps      []steps.Spec // in an order in which they can run
	Partial    bool         // Steps are not all: some were left out, of a run that is for others
	Source     string       // "plan.join.hcl:12,3"
}

// Manifest is a file of objects of the cluster, in YAML.
type Manifest struct {
	Name    string // "flannel"
	Content string
	Source  string
}

// Connection says how a node is reached. Type is "ssh", "winrm", "local" or "sandbox".
type Connection struct {
	Type    string
	SSH     *SSH
	WinRM   *WinRM
	Sandbox *Sandbox
	Source  string
}

// SSH is `connection "ssh"`.
type SSH struct {
	Host       string
	Port       int // 0 = 22 or what ssh_config says
	User       string
	Identity   []string // key files; empty = ssh_config, agent and the default names
	KnownHosts []string // files; empty = ssh_config or ~/.ssh/known_hosts
	HostKey    string   // a pinned key, authorized_keys form or SHA256:...; "" = known_hosts
	AcceptNew  bool     // note an unknown host's key in known_hosts at first contact
	// PasswordEnv and PassphraseEnv name environment variables of the controller.
	PasswordEnv   string
	PassphraseEnv string
	Jump          []string          // "user@host:port", outermost first
	JumpKeys      map[string]string `json:",omitempty"` // pinned keys of jump hosts, by their element of Jump
	Timeout       time.Duration
	Become        *Become `json:",omitempty"` // nil = the user has the rights that the agent needs
}

// WinRM is `connection "winrm"`: HTTPS with NTLM or Kerberos, or HTTP sealed by one of them.
type WinRM struct {
	Host              string
	Port              int // 0 = 5986
	User              string
	Kerberos          bool   `json:",omitempty"` // instead of NTLM
	HTTP              bool   `json:",omitempty"` // without TLS: the login seals the messages
	PasswordEnv       string // environment variable of the controller; with Kerberos "" = the tickets of kinit
	CertificateSHA256 string `json:",omitempty"` // lower-case hex; "" = CAs sign the certificate
	CAFile            string `json:",omitempty"` // absolute; "" = the CAs of the controller's system
	Timeout           time.Duration
	Through           *SSH `json:",omitempty"` // its jump hosts, and how to log in there; nil = there is none
	// SetupSSH is the SSH server that the machine gets; nil = none.
	SetupSSH *SetupSSH `json:",omitempty"`
}

// SetupSSH is an SSH server for later runs.
type SetupSSH struct {
	Key           string   // public key that logs administrators in
	Identity      []string `json:",omitempty"` // how nodejoin tries it: key files; empty = as connection "ssh"
	PassphraseEnv string   `json:",omitempty"` // environment variable of the controller, for the key files
}

// Become is how the user of connection "ssh" gets root's rights.
type Become struct {
	Method      string // "sudo" or "doas"
	PasswordEnv string // environment variable of the controller; "" = no password is asked for
}

// Sandbox is `connection "sandbox"`: a machine in a folder.
type Sandbox struct {
	Path  string // absolute folder on the controller
	Build string // "10.0.20348"; default Windows Server 2022
	IP    string // its management address, default 192.0.2.10
	IP6   string `json:",omitempty"` // its address of IPv6; "" = none
	// Capacity of its volume in bytes; 0 = that of the controller's.
	Capacity int64
	// ClusterDir is the folder of the simulated cluster that its kubelet joins; "" = none.
	ClusterDir string
}

// Cluster is the cluster that the nodes join.
type Cluster struct {
	Name    string
	Version string // "1.36.3"
	Runtime string // of its nodes: "containerd", "docker" or "mcr"
	// ServerVersion is that of the API server as the plan gives it; "" = as it says itself.
	ServerVersion string
	APIServer     string // URL that the nodes use
	Kubeconfig    string // absolute path on the controller; "" with Sandbox
	// Sandbox is the folder of a simulated cluster; "" = a real one.
	Sandbox string
	CAHash  string // "sha256:..." pin; "" = trust the kubeconfig's CA
	PodCIDR string
	DNSIP   string // address of the cluster's DNS service
	// DNSDomain is the end of all names of the cluster, "cluster.local".
	DNSDomain string
	Source    string
}
