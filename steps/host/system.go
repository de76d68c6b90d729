package host

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// SystemReader observes the machine as a whole.
type SystemReader interface {
	// Facts describes the machine; implementations may cache it for one connection.
	Facts(ctx context.Context) (Facts, error)
	// MachineEnv reads a variable of the machine's environment (not of this process).
	MachineEnv(ctx context.Context, name string) (string, error)
	// TrustedCA reports whether the machine's certificate store contains this authority (one certificate in
	// DER). Machines without a known store return ErrUnsupported.
	TrustedCA(ctx context.Context, ca []byte) (bool, error)
	// AddedCA reports whether DistrustCA has something of TrustCA to remove, even of an interrupted call. An
	// authority that the machine also trusts for another reason, such as a group policy, stays trusted.
	AddedCA(ctx context.Context, ca []byte) (bool, error)
	// Feature returns how Windows has an optional feature ("Containers"); fs.ErrNotExist if Windows does not
	// know it. Machines without features return ErrUnsupported.
	Feature(ctx context.Context, name string) (FeatureState, error)
	// HostName gives the machine's name, now and after the next boot.
	HostName(ctx context.Context) (HostName, error)
	// RebootNoted returns what was noted with NoteReboot since the machine booted, sorted; it detects the boot
	// itself, whatever the clock did.
	RebootNoted(ctx context.Context) ([]string, error)
	// Events returns the newest entries of a channel of the Windows event log ("System", "Application") that come
	// from these sources, newest first, at most that many. A machine without one, or one that does not answer
	// questions about it (Wine), returns ErrUnsupported.
	Events(ctx context.Context, channel string, sources []string, most int) ([]Event, error)
}

// System observes and changes the machine as a whole.
type System interface {
	SystemReader

	SetMachineEnv(ctx context.Context, name, value string) error
	// UnsetMachineEnv removes a variable; absence is not an error.
	UnsetMachineEnv(ctx context.Context, name string) error
	// TrustCA adds an authority (one certificate in DER) to the machine's store; it is not an error if it is
	// there already. Programs read the store when they start, or later.
	TrustCA(ctx context.Context, ca []byte) error
	// DistrustCA removes an authority that TrustCA has added; absence is not an error. One that the machine also
	// trusts for another reason stays trusted.
	DistrustCA(ctx context.Context, ca []byte) error
	// EnableFeature turns a feature on, with those that it needs. If that needs a reboot, its state says so. A
	// feature that Windows does not know is fs.ErrNotExist.
	EnableFeature(ctx context.Context, name string) error
	// DisableFeature turns a feature off; its files stay. It is not an error if it is off already.
	DisableFeature(ctx context.Context, name string) error
	// SetHostName changes the machine's name: on Windows from the next boot on, on Linux now and after each
	// boot. It is not an error if it has that name already; a name that no machine can have (CheckHostName), or
	// that the machine rejects, is fs.ErrInvalid.
	SetHostName(ctx context.Context, name string) error
	// NoteReboot notes, until the machine boots, what needs a reboot.
	NoteReboot(ctx context.Context, what string) error
	// Reboot requests a reboot and returns once it is accepted; the machine goes down soon after. It is not an
	// error if one is under way already. One that is planned for later stays, and is ErrShutdownPlanned.
	Reboot(ctx context.Context) error
}

// Facts describes a machine.
type Facts struct {
	OS           string `json:"os"`                      // "windows" or "linux"
	Arch         string `json:"arch"`                    // Go's names: "amd64", "arm64"
	Hostname     string `json:"hostname"`                // as the machine reports it, case kept
	Build        string `json:"build"`                   // Windows "10.0.20348"; Linux kernel release
	Product      string `json:"product,omitempty"`       // "Windows Server 2022 Datacenter"
	ManagementIP string `json:"management_ip,omitempty"` // first IPv4 of the interface of the default route
	Interface    string `json:"interface,omitempty"`     // its name
	Subnet       string `json:"subnet,omitempty"`        // its network, "192.0.2.0/24"
	// addresses of all adapters at which other machines may reach it
	IPv6     []string  `json:"ipv6,omitempty"`
	BootTime time.Time `json:"boot_time,omitzero"`
	Admin    bool      `json:"admin"`
	DataDir  string    `json:"data_dir"` // nodejoin's own folder

	Memory uint64 `json:"memory,omitempty"` // bytes of physical memory
	CPUs   int    `json:"cpus,omitempty"`   // logical processors

	// Of Linux only.

	Init string `json:"init,omitempty"` // "systemd" where it is the service manager, else ""
	// "v2" if the unified hierarchy is at /sys/fs/cgroup, otherwise "v1"; "" = none
	Cgroup string `json:"cgroup,omitempty"`
	Swap   uint64 `json:"swap,omitempty"` // bytes of swap space in use by the kernel
	// resolver configuration for pods: that of systemd-resolved behind its stub, otherwise /etc/resolv.conf
	ResolvConf string `json:"resolv_conf,omitempty"`
}

// Event is an entry of the Windows event log.
type Event struct {
	Time   time.Time `json:"time"`
	Source string    `json:"source"`
	ID     uint16    `json:"id"`
	Level  string    `json:"level"` // "critical", "error", "warning", "information", "verbose"; or its number
	// Text is the message as the event viewer shows it. An entry whose source has registered no messages has its
	// values instead.
	Text string `json:"text" lines:"true"`
}

// MaxEvents is the most entries that Events returns.
const MaxEvents = 1000

// CheckEvents rejects (fs.ErrInvalid) a question to Events that no event log can answer.
func CheckEvents(channel string, sources []string, most int) error {
	for _, name := range append([]string{channel}, sources...) {
		if name == "" || strings.ContainsAny(name, `'"`) {
			return fmt.Errorf("%w: an event log has no channel or source %q", fs.ErrInvalid, name)
		}
	}
	if len(sources) == 0 || most < 1 || most > MaxEvents {
		return fmt.Errorf("%w: %d entries of %d sources, the most is %d", fs.ErrInvalid, most, len(sources), MaxEvents)
	}
	return nil
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

// Enabled reports whether the feature is on, or will be after the next boot.
func (s FeatureState) Enabled() bool { return s == FeatureOn || s == FeatureOnPending }
