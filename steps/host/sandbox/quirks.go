package sandbox

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"nodejoin/steps/host"
)

// Quirks are properties of a machine that no mutating call of nodejoin sets. They are read from the file
// .sandbox/quirks.json below Path at each question, so that a person or a test can make the machine unfit. What
// the file omits is as on a machine in good order.
type Quirks struct {
	Memory    uint64             `json:"memory,omitempty"`    // bytes, default 16 GiB
	CPUs      int                `json:"cpus,omitempty"`      // default 4
	Swap      uint64             `json:"swap,omitempty"`      // bytes in use
	Cgroup    string             `json:"cgroup,omitempty"`    // default v2, on linux
	HostName  string             `json:"host_name,omitempty"` // that the machine came with, default that of Config
	Domain    string             `json:"domain,omitempty"`    // that it is a member of
	NoAdmin   bool               `json:"no_admin,omitempty"`
	Adapters  []host.Adapter     `json:"adapters,omitempty"`  // default: one, with the machine's address
	Listeners []host.Listener    `json:"listeners,omitempty"` // besides those of the simulated programs
	Excluded  []host.PortRange   `json:"excluded,omitempty"`  // ports that no program gets
	Networks  []host.HNSNetwork  `json:"networks,omitempty"`  // HNS networks besides flanneld's
	Endpoints []host.HNSEndpoint `json:"endpoints,omitempty"` // HNS endpoints; the simulated programs create none
	// LoadBalancers are those of HNS; the simulated programs create none.
	LoadBalancers []host.HNSLoadBalancer `json:"load_balancers,omitempty"`
	// Images are those that containerd has; the simulated programs pull none.
	Images []host.Image `json:"images,omitempty"`
	// NoImages are names that no registry has.
	NoImages []string `json:"no_images,omitempty"`
	// Events are the entries of the event log, by channel; the simulated programs write none.
	Events map[string][]host.Event `json:"events,omitempty"`
	// API is why an API server does not answer: "name" (the name cannot be resolved), or the text of an error;
	// "" = it answers.
	API string `json:"api,omitempty"`
	// APICertificates are the certificates that it presents, in DER; none = not known.
	APICertificates [][]byte `json:"api_certificates,omitempty"`
	// TCP is why a connection to another machine fails, likewise.
	TCP string `json:"tcp,omitempty"`
	// Features are added to those of Windows, or override them: Containers is on and Microsoft-Hyper-V is off
	// by default.
	Features map[string]host.FeatureState `json:"features,omitempty"`
	// Open are folders that users can rename. List does not report it.
	Open []string `json:"open,omitempty"`
	// Authorities are those that the machine trusts without nodejoin: sha256 in hex.
	Authorities []string      `json:"authorities,omitempty"`
	ClockSkew   time.Duration `json:"clock_skew,omitempty"` // how far the machine's clock is ahead, in nanoseconds
	// Unasked are the questions that the machine cannot answer: names of methods of host.Reader, and
	// "RegistryValue KEY" for one key.
	Unasked []string `json:"unasked,omitempty"`
}

func (h *Host) quirks() (Quirks, error) {
	q := Quirks{}
	err := readJSON(filepath.Join(h.cfg.Path, stateDir, "quirks.json"), &q)
	if q.Memory == 0 {
		q.Memory = 16 << 30
	}
	if q.CPUs == 0 {
		q.CPUs = 4
	}
	return q, err
}

// ask returns the quirks, or an error if the question named method is one of Unasked.
func (h *Host) ask(ctx context.Context, method, subject string) (Quirks, error) {
	if ctx.Err() != nil {
		return Quirks{}, failed("ask for", subject, context.Cause(ctx))
	}
	q, err := h.quirks()
	if err == nil && slices.Contains(q.Unasked, method) {
		err = errors.New("it cannot be asked (quirks.json)")
	}
	return q, failed("ask for", subject, err)
}
