// Package host is the boundary between nodejoin and one machine.
//
// Reader has no method that can change the machine, so code that is handed a
// Reader can be run as a dry run by type, not by promise. Host adds the calls
// that change it. Implementations: host/windows (native API), host/linux and
// host/sandbox (a machine in a folder); hosttest holds the suite they all pass.
//
// Paths are absolute and in the machine's own form (`C:\k\kubelet.exe`,
// `/srv/k/kubelet`). Every method may block and obeys its context.
package host

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"
)

// Reader observes a machine.
//
// "Is not there" is always an error that matches fs.ErrNotExist; any other
// error means that the question could not be answered and must never be
// taken for absence.
type Reader interface {
	// Facts describes the machine; implementations may cache it for one connection.
	Facts(ctx context.Context) (Facts, error)

	// Stat describes a file or directory.
	Stat(ctx context.Context, path string) (FileInfo, error)
	// Open reads a file from its start.
	Open(ctx context.Context, path string) (io.ReadCloser, error)
	// List gives the entries of a directory, sorted by name.
	List(ctx context.Context, path string) ([]FileInfo, error)
	// FreeBytes is the space left on the volume that holds path (or would hold it).
	FreeBytes(ctx context.Context, path string) (uint64, error)

	// Mounts are where file systems are mounted, at path or below it, in the order in
	// which they were. Windows has volumes, which nobody but an administrator puts into
	// folders, and answers that there are none; so it is of a path that is not there.
	Mounts(ctx context.Context, path string) ([]string, error)

	// Service describes a registered service.
	Service(ctx context.Context, name string) (Service, error)
	// Dependents names the running services that depend on name, directly or not,
	// in the order in which they must be stopped.
	Dependents(ctx context.Context, name string) ([]string, error)

	// RegistryValue reads one value of a key written `HKLM\SOFTWARE\...`.
	// Machines without a registry answer ErrUnsupported.
	RegistryValue(ctx context.Context, key, name string) (RegistryValue, error)
	// RegistryNames gives the names of the keys and of the values directly below a
	// key, each sorted. A key that holds nothing is there; one that is not is fs.ErrNotExist.
	RegistryNames(ctx context.Context, key string) (keys, values []string, err error)
	// MachineEnv reads a variable of the machine's environment (not of this process).
	MachineEnv(ctx context.Context, name string) (string, error)
	// FirewallRule reads an inbound or outbound rule by its unique name.
	FirewallRule(ctx context.Context, name string) (FirewallRule, error)
	// Sysctl reads a kernel parameter by its name with dots ("net.ipv4.ip_forward"),
	// as sysctl(8) shows it, runs of blanks as one. Machines without them answer
	// ErrUnsupported.
	Sysctl(ctx context.Context, name string) (string, error)
	// KernelModule tells how the running kernel has a module; fs.ErrNotExist when it
	// neither is loaded nor known to be part of the kernel. Machines without modules
	// answer ErrUnsupported.
	KernelModule(ctx context.Context, name string) (KernelModule, error)
	// Interfaces names the network interfaces, up or not, sorted. Machines whose packet
	// filter is not iptables' answer ErrUnsupported to this and to the calls on chains.
	Interfaces(ctx context.Context) ([]string, error)
	// FilterChains lists the chains of the packet filter that programs have made. Where
	// iptables is not installed it is fs.ErrNotExist.
	FilterChains(ctx context.Context) ([]FilterChain, error)
	// FilterTables lists the tables of nftables, those that iptables has there, too. Where
	// nft is not installed it is fs.ErrNotExist; Windows answers ErrUnsupported.
	FilterTables(ctx context.Context) ([]FilterTable, error)
	// DynamicPorts gives the ports of "tcp" or "udp" of which a program gets one that
	// asks for any. Machines whose kernel parameters these are answer ErrUnsupported, to
	// the calls on reserved ports, too.
	DynamicPorts(ctx context.Context, protocol string) (PortRange, error)
	// PortsReserved tells whether exactly this range is reserved (ReservePorts).
	PortsReserved(ctx context.Context, r PortRange) (bool, error)
	// PortExcluded tells whether the machine refuses a port of "tcp" or "udp" to a
	// program that asks for it, and none holds it: one of a range that Windows or its NAT
	// has set aside. It takes the port for a moment to know.
	PortExcluded(ctx context.Context, protocol string, port uint16) (bool, error)
	// TrustedCA tells whether the machine's own store of authorities has this one (one
	// certificate in DER). Machines without such a store, or with one that is not known,
	// answer ErrUnsupported.
	TrustedCA(ctx context.Context, ca []byte) (bool, error)
	// AddedCA tells whether there is something of TrustCA for DistrustCA to take out, be
	// it of a call that was interrupted. An authority that the machine trusts for another
	// reason as well, such as a group policy, is trusted without.
	AddedCA(ctx context.Context, ca []byte) (bool, error)
	// Feature tells how Windows has an optional feature ("Containers"); one that Windows
	// does not know is fs.ErrNotExist. Machines without features answer ErrUnsupported.
	Feature(ctx context.Context, name string) (FeatureState, error)
	// HostName gives the machine's name, now and after the next boot.
	HostName(ctx context.Context) (HostName, error)
	// RebootNoted gives what was noted with NoteReboot since the machine has booted,
	// sorted; it knows by itself that the machine has booted, whatever its clock did.
	RebootNoted(ctx context.Context) ([]string, error)
	// HNSNetwork reads a network of the Host Networking Service by name (case-insensitive).
	HNSNetwork(ctx context.Context, name string) (HNSNetwork, error)
	// HNSNetworks lists them all, sorted by name.
	HNSNetworks(ctx context.Context) ([]HNSNetwork, error)
	// HNSEndpoints lists the endpoints of all networks of HNS, sorted by network, name
	// and id. Where HNSNetworks is ErrUnsupported it is, too.
	HNSEndpoints(ctx context.Context) ([]HNSEndpoint, error)
	// Adapters lists the network adapters that are up and have an address, sorted by
	// name; the loopback is left out.
	Adapters(ctx context.Context) ([]Adapter, error)
	// Routes lists the routes of IPv4 and IPv6 (Linux: the main table's), sorted as
	// SortRoutes does.
	Routes(ctx context.Context) ([]Route, error)
	// Listeners lists the TCP ports on which programs listen and the UDP ports that
	// are bound, sorted by protocol and port; each port once.
	Listeners(ctx context.Context) ([]Listener, error)

	// ProbeHTTP asks url (http only, loopback or the machine's own address) and
	// gives the status code. An error means that nothing answered.
	ProbeHTTP(ctx context.Context, url string) (status int, err error)
	// ProbePipe connects to a named pipe (`\\.\pipe\x`) or unix socket. With a
	// grpcMethod (`/runtime.v1.RuntimeService/Version`) it also makes that call
	// with an empty message and wants grpc-status 0.
	ProbePipe(ctx context.Context, address, grpcMethod string) error
	// ProbeAPI asks an API server (https) from this machine, without credentials and
	// without a belief in its certificate: it tells that there is a way, what time it
	// is there, and what the certificate is. A name that is not found is ErrNameUnknown.
	ProbeAPI(ctx context.Context, url string) (APIAnswer, error)
	// ProbeTCP connects to address (HOST:PORT) from this machine and says nothing. A
	// name that is not found is ErrNameUnknown, a way that does not lead to a listener
	// ErrNoAnswer; any other error means that it could not be asked.
	ProbeTCP(ctx context.Context, address string) error
}

// Host observes and changes a machine. Each method below is one mutating call:
// it either happens or does not, and an interrupted one is finished by calling
// it again.
type Host interface {
	Reader

	// Mkdir makes a directory and its missing parents; an existing one is kept
	// and only its access is set. On Windows only the system and administrators can
	// change a folder that it makes, whatever C:\ gives to others; what is made in it
	// later inherits what it would else (but for AccessPrivate).
	Mkdir(ctx context.Context, path string, access Access) error
	// WriteFile replaces path atomically (temporary file beside it, flush, rename)
	// and makes missing parents, as Mkdir does. The temporary name is TempName(path), so that a
	// later run takes up or overwrites what an interrupted one left.
	WriteFile(ctx context.Context, path string, r io.Reader, opt WriteOptions) error
	// CreateExclusive makes a new file with this content, or fails with fs.ErrExist.
	CreateExclusive(ctx context.Context, path string, data []byte) error
	// Rename moves a file, replacing newPath. A program that runs from newPath is ErrBusy.
	Rename(ctx context.Context, oldPath, newPath string) error
	// Remove deletes a file or an empty directory; absent is no error. A program
	// that runs from path is ErrBusy.
	Remove(ctx context.Context, path string) error
	// Unmount takes off what was mounted last at exactly this path; nothing is no error.
	// One that is in use is ErrBusy.
	Unmount(ctx context.Context, path string) error
	// SetAccess changes who may read and write path.
	SetAccess(ctx context.Context, path string, access Access) error

	// CreateService registers a service, stopped. An existing name is fs.ErrExist.
	CreateService(ctx context.Context, c ServiceConfig) error
	// UpdateService changes a registered service in place (never delete and create).
	UpdateService(ctx context.Context, c ServiceConfig) error
	// StartService asks for a start and returns once the service manager has taken
	// it; starting a running service is ErrServiceRunning.
	StartService(ctx context.Context, name string) error
	// StopService stops and waits until the service reports stopped and its
	// process is gone, bounded by ctx. A process that stays long after that report is
	// ended. Stopped already is no error. Running dependents are ErrDependents.
	StopService(ctx context.Context, name string) error
	// DeleteService unregisters a stopped service. Running: ErrServiceRunning.
	// Registered services that depend on it: ErrDependents. Absent is no error.
	DeleteService(ctx context.Context, name string) error

	// RunProgram runs a program to its end and gives its exit code; a code other than
	// 0 is no error. It runs in its own folder, with this process's environment and
	// rights and without input; what it prints is in p.Log when the call returns. A
	// program that is not there is fs.ErrNotExist. When ctx ends first, the program and
	// what it has started are killed, and so they are when this process ends. Services
	// that it has started through the service manager run on.
	RunProgram(ctx context.Context, p Program) (exitCode int, err error)

	SetRegistryValue(ctx context.Context, key, name string, v RegistryValue) error
	// DeleteRegistryValue removes one value; absent is no error. Its key stays.
	DeleteRegistryValue(ctx context.Context, key, name string) error
	// DeleteRegistryKey removes a key that holds nothing; absent is no error. One with
	// values or keys below it stays, which is ErrBusy.
	DeleteRegistryKey(ctx context.Context, key string) error
	SetMachineEnv(ctx context.Context, name, value string) error
	// UnsetMachineEnv removes a variable; absent is no error.
	UnsetMachineEnv(ctx context.Context, name string) error
	// SetSysctl sets a kernel parameter until the next boot. One that the kernel does
	// not have is fs.ErrNotExist.
	SetSysctl(ctx context.Context, name, value string) error
	// LoadKernelModule loads a module, with those that it needs, into the running
	// kernel; one that is there already is no error.
	LoadKernelModule(ctx context.Context, name string) error
	// DeleteInterface removes an interface that programs have made, such as a bridge;
	// absent is no error.
	DeleteInterface(ctx context.Context, name string) error
	// DeleteFilterChains removes chains with their rules, and the rules of others that lead
	// to them; absent is no error.
	DeleteFilterChains(ctx context.Context, chains []FilterChain) error
	// DeleteFilterTables removes tables with all that is in them; absent is no error.
	DeleteFilterTables(ctx context.Context, tables []FilterTable) error
	// DeleteRoutes removes routes that are as Routes gives them; absent is no error. Windows
	// answers ErrUnsupported.
	DeleteRoutes(ctx context.Context, routes []Route) error
	// SetDynamicPorts changes what DynamicPorts gives, now and after each boot. A range
	// that is not ValidDynamic is fs.ErrInvalid.
	SetDynamicPorts(ctx context.Context, r PortRange) error
	// ReservePorts takes a range out of the ports that programs get which ask for any,
	// now and after each boot. One that is reserved already is no error; a port of it
	// that a program or another reservation has is ErrBusy.
	ReservePorts(ctx context.Context, r PortRange) error
	// ReleasePorts ends a reservation; absent is no error.
	ReleasePorts(ctx context.Context, r PortRange) error
	// TrustCA puts an authority (one certificate in DER) into the machine's store; one
	// that is there already is no error. Programs read the store when they start, or later.
	TrustCA(ctx context.Context, ca []byte) error
	// DistrustCA takes out an authority that TrustCA has put in; absent is no error. One
	// that the machine trusts for another reason as well stays trusted.
	DistrustCA(ctx context.Context, ca []byte) error
	// EnableFeature turns a feature on, with those that it needs. Where that takes a
	// reboot, its state says so then. One that Windows does not know is fs.ErrNotExist.
	EnableFeature(ctx context.Context, name string) error
	// DisableFeature turns a feature off; its files stay. Off already is no error.
	DisableFeature(ctx context.Context, name string) error
	// SetHostName changes the machine's name: on Windows from the next boot on, on Linux
	// now and after each boot. One that it has already is no error; one that no machine
	// can have (CheckHostName), or that the machine refuses, is fs.ErrInvalid.
	SetHostName(ctx context.Context, name string) error
	// NoteReboot notes, until the machine boots, what needs a reboot.
	NoteReboot(ctx context.Context, what string) error
	// Reboot asks for a reboot and returns once it is taken; the machine goes down soon
	// after. One that is under way already is no error.
	Reboot(ctx context.Context) error
	// PutFirewallRule adds the rule or replaces the one of the same name.
	PutFirewallRule(ctx context.Context, r FirewallRule) error
	// DeleteFirewallRule removes a rule by name; absent is no error.
	DeleteFirewallRule(ctx context.Context, name string) error
	// CreateHNSNetwork makes a network that outlives boots. One of the name
	// (case-insensitive) is fs.ErrExist. On a machine whose adapter has no virtual switch
	// one is made, and for some seconds the machine has no connections.
	CreateHNSNetwork(ctx context.Context, n HNSNetworkConfig) error
	// DeleteHNSNetwork removes a network by name (case-insensitive), with its endpoints
	// and the load balancers over these; absent is no error.
	DeleteHNSNetwork(ctx context.Context, name string) error
}

// Facts describes a machine.
type Facts struct {
	OS           string    `json:"os"`                      // "windows" or "linux"
	Arch         string    `json:"arch"`                    // Go's names: "amd64", "arm64"
	Hostname     string    `json:"hostname"`                // as the machine reports it, case kept
	Build        string    `json:"build"`                   // Windows "10.0.20348"; Linux kernel release
	Product      string    `json:"product,omitempty"`       // "Windows Server 2022 Datacenter"
	ManagementIP string    `json:"management_ip,omitempty"` // first IPv4 of the interface of the default route
	Interface    string    `json:"interface,omitempty"`     // its name
	Subnet       string    `json:"subnet,omitempty"`        // its network, "192.0.2.0/24"
	IPv6         []string  `json:"ipv6,omitempty"`          // addresses of all adapters at which other machines may reach it
	BootTime     time.Time `json:"boot_time,omitzero"`
	Admin        bool      `json:"admin"`
	DataDir      string    `json:"data_dir"` // nodejoin's own folder

	Memory uint64 `json:"memory,omitempty"` // bytes of physical memory
	CPUs   int    `json:"cpus,omitempty"`   // logical processors

	// Of Linux only.

	Init       string `json:"init,omitempty"`        // "systemd" where it is the service manager, else ""
	Cgroup     string `json:"cgroup,omitempty"`      // "v2" where the unified hierarchy is at /sys/fs/cgroup, else "v1"; "" = none there
	Swap       uint64 `json:"swap,omitempty"`        // bytes of swap space in use by the kernel
	ResolvConf string `json:"resolv_conf,omitempty"` // resolver configuration for pods: that of systemd-resolved behind its stub, else /etc/resolv.conf
}

// FilterChain is a chain of the packet filter, as iptables names it.
type FilterChain struct {
	Family string // "ipv4" or "ipv6"
	Table  string // "nat"
	Name   string // "KUBE-SERVICES"
}

// String is "ipv4/nat/KUBE-SERVICES".
func (c FilterChain) String() string { return c.Family + "/" + c.Table + "/" + c.Name }

// FilterTable is a table of nftables.
type FilterTable struct {
	Family string // "ip", "ip6", "inet" and others of nft(8)
	Name   string // "kube-proxy"
}

// String is "ip/kube-proxy".
func (t FilterTable) String() string { return t.Family + "/" + t.Name }

// KernelModule is how a kernel has a module.
type KernelModule string

const (
	ModuleLoaded  KernelModule = "loaded"
	ModuleBuiltIn KernelModule = "built in" // part of the kernel itself
)

// FeatureState is how Windows has an optional feature.
type FeatureState string

const (
	FeatureOn         FeatureState = "on"
	FeatureOff        FeatureState = "off"
	FeatureOnPending  FeatureState = "on after a reboot"
	FeatureOffPending FeatureState = "off after a reboot"
	FeatureRemoved    FeatureState = "off, and its files are not on the machine"
)

// Access says who may read and write a file or directory.
type Access string

const (
	AccessDefault Access = ""        // what the parent gives (Windows: inherited, a new directory see Mkdir; Linux: 0644, directories 0755)
	AccessPrivate Access = "private" // SYSTEM and Administrators only, inheritance off; Linux: 0600, directories 0700
	AccessProgram Access = "program" // Windows: as AccessDefault; Linux: 0755
)

// FileInfo describes one file or directory.
type FileInfo struct {
	Name    string    `json:"name"` // last element
	Dir     bool      `json:"dir,omitempty"`
	Size    int64     `json:"size"` // bytes; 0 for directories
	ModTime time.Time `json:"mod_time"`
	// Access as observed: AccessPrivate when nobody but the system and
	// administrators (Linux: the owner, root) can read it, AccessProgram when a
	// Linux file is executable, else AccessDefault.
	Access Access `json:"access,omitempty"`
	// Open: others than the system and administrators can rename it or what lies in it,
	// or give themselves the right to. It is looked for on Windows only.
	Open bool `json:"open,omitempty"`
	// ID changes when the file is replaced (inode and change time, or file index);
	// empty where the machine has none.
	ID string `json:"id,omitempty"`
	// Elsewhere marks an entry of List that leads to another place: a link, a junction,
	// a mount point. The other fields describe that place; Remove of a link or junction
	// removes it alone.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// WriteOptions are the attributes of a written file.
type WriteOptions struct {
	Access Access
	// SHA256, when set, is checked against the bytes that were read; a mismatch
	// leaves nothing behind and is a *DigestError.
	SHA256 string
}

// Program is a program that runs to its end.
type Program struct {
	Command []string // absolute path of the program, and its arguments
	// PathFirst is a folder that comes first in the program's PATH; "" = none.
	PathFirst string
	Log       string // file for all that it prints, made anew, AccessPrivate
}

func (p Program) name() string {
	if len(p.Command) == 0 {
		return ""
	}
	return p.Command[0]
}

// Env is the environment of the program, where env is that of the process that runs
// it; listSep stands between the folders of a PATH. Windows has names without case,
// and writes Path.
func (p Program) Env(env []string, listSep string) []string {
	if p.PathFirst == "" {
		return env
	}
	i := slices.IndexFunc(env, func(v string) bool { return len(v) > 4 && strings.EqualFold(v[:5], "PATH=") })
	if i < 0 {
		return append(slices.Clone(env), "PATH="+p.PathFirst)
	}
	env = slices.Clone(env)
	env[i] = env[i][:5] + p.PathFirst + listSep + env[i][5:]
	return env
}

// RegistryValue is one registry value. Exactly one of the data fields counts, by Type.
type RegistryValue struct {
	Type    string   `json:"type"`              // string, expand_string, multi_string, dword, qword, binary
	String  string   `json:"string,omitempty"`  // string, expand_string
	Strings []string `json:"strings,omitempty"` // multi_string
	Number  uint64   `json:"number,omitempty"`  // dword, qword
	Binary  []byte   `json:"binary,omitempty"`  // binary
}
