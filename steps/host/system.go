package host

import (
	"context"
	"time"
)

// SystemReader observes the machine as a whole.
type SystemReader interface {
	// Facts describes the machine; implementations may cache it for one connection.
	Facts(ctx context.Context) (Facts, error)
	// MachineEnv reads a variable of the machine's environment (not of this process).
	MachineEnv(ctx context.Context, name string) (string, error)
	// TrustedCA reports whether the machine's own store of authorities has this one (one
	// certificate in DER). Machines without such a store, or with one that is not known,
	// answer ErrUnsupported.
	TrustedCA(ctx context.Context, ca []byte) (bool, error)
	// AddedCA reports whether there is something of TrustCA for DistrustCA to take out, be
	// it of a call that was interrupted. An authority that the machine trusts for another
	// reason as well, such as a group policy, is trusted without.
	AddedCA(ctx context.Context, ca []byte) (bool, error)
	// Feature says how Windows has an optional feature ("Containers"); one that Windows
	// does not know is fs.ErrNotExist. Machines without features answer ErrUnsupported.
	Feature(ctx context.Context, name string) (FeatureState, error)
	// HostName gives the machine's name, now and after the next boot.
	HostName(ctx context.Context) (HostName, error)
	// RebootNoted returns what was noted with NoteReboot since the machine has booted,
	// sorted; it knows by itself that the machine has booted, whatever its clock did.
	RebootNoted(ctx context.Context) ([]string, error)
}

// System observes and changes the machine as a whole.
type System interface {
	SystemReader

	SetMachineEnv(ctx context.Context, name, value string) error
	// UnsetMachineEnv removes a variable; absence is not an error.
	UnsetMachineEnv(ctx context.Context, name string) error
	// TrustCA puts an authority (one certificate in DER) into the machine's store; one
	// that is there already is not an error. Programs read the store when they start, or later.
	TrustCA(ctx context.Context, ca []byte) error
	// DistrustCA takes out an authority that TrustCA has put in; absence is not an error. One
	// that the machine trusts for another reason as well stays trusted.
	DistrustCA(ctx context.Context, ca []byte) error
	// EnableFeature turns a feature on, with those that it needs. Where that takes a
	// reboot, its state says so then. One that Windows does not know is fs.ErrNotExist.
	EnableFeature(ctx context.Context, name string) error
	// DisableFeature turns a feature off; its files stay. Off already is not an error.
	DisableFeature(ctx context.Context, name string) error
	// SetHostName changes the machine's name: on Windows from the next boot on, on Linux
	// now and after each boot. One that it has already is not an error; one that no machine
	// can have (CheckHostName), or that the machine refuses, is fs.ErrInvalid.
	SetHostName(ctx context.Context, name string) error
	// NoteReboot notes, until the machine boots, what needs a reboot.
	NoteReboot(ctx context.Context, what string) error
	// Reboot asks for a reboot and returns once it is taken; the machine goes down soon
	// after. One that is under way already is not an error.
	Reboot(ctx context.Context) error
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

// FeatureState is how Windows has an optional feature.
type FeatureState string

const (
	FeatureOn         FeatureState = "on"
	FeatureOff        FeatureState = "off"
	FeatureOnPending  FeatureState = "on after a reboot"
	FeatureOffPending FeatureState = "off after a reboot"
	FeatureRemoved    FeatureState = "off, and its files are not on the machine"
)
