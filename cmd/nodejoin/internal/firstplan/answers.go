// Package firstplan makes the text of a first plan from the answers of a person.
package firstplan

import (
	"errors"
	"fmt"
	"net/netip"
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
	usualRunc       = "1.5.2"
)

// Answers are what a first plan is made of.
type Answers struct {
	Name, APIServer, Kubeconfig, Mirror                     string
	Kubernetes, Containerd, Flannel, CNIPlugins, FlannelCNI string
	Runc                                                    string
	User, LinuxUser                                         string
	Sandbox                                                 bool
	Hosts                                                   []Host

	mirror string // Mirror as this process opens it
}

// Artifact is an artifact of a first plan.
type Artifact struct{ Name, OS string }

// Host is a machine of the plan. OS is "windows" or "linux".
type Host struct{ OS, Name, Address string }

// Systems returns the operating systems of the hosts, Windows first.
func (a *Answers) Systems() []string {
	var out []string
	for _, os := range []string{"windows", "linux"} {
		if len(a.HostsOf(os)) > 0 {
			out = append(out, os)
		}
	}
	return out
}

// HostsOf returns the hosts with an operating system.
func (a *Answers) HostsOf(os string) []Host {
	var out []Host
	for _, h := range a.Hosts {
		if h.OS == os {
			out = append(out, h)
		}
	}
	return out
}

// AddHost adds a machine with an operating system, given as name=address.
func (a *Answers) AddHost(os, s string) error {
	h, err := parseHost(s, a.Sandbox)
	if err != nil {
		return err
	}
	h.OS = os
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
	nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`) // RFC 1123, with at most 253 characters
)

func checkVersion(s string) error {
	if _, err := compat.Parse(s); err != nil {
		return fmt.Errorf("%q is not a version; write it as 1.2.3", s)
	}
	return nil
}

func parseHost(s string, sandbox bool) (Host, error) {
	name, address, ok := strings.Cut(s, "=")
	name, address = strings.TrimSpace(name), strings.TrimSpace(address)
	switch {
	case !ok || address == "" || strings.ContainsAny(address, " \t"):
		return Host{}, errors.New("it must be name=address, for example win-1=10.0.0.21")
	case len(name) > 253 || !nodeName.MatchString(name):
		return Host{}, fmt.Errorf("%q is not a node name: use lower-case letters, digits, '-' and '.' (RFC 1123)", name)
	}
	if _, err := netip.ParseAddr(address); sandbox && err != nil {
		return Host{}, fmt.Errorf("%q is not an IP address, which a sandbox needs", address)
	}
	return Host{Name: name, Address: address}, nil
}
