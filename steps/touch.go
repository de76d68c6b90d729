package steps

import (
	"strings"

	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

// Touch is one thing that an apply alters. Later steps are planned as if it had changed
// already. One field is set.
type Touch struct {
	Path    string          `json:"path,omitempty"`    // a file, or a folder with all that is in it
	Service string          `json:"service,omitempty"` // it is stopped, started or restarted
	Module  string          `json:"module,omitempty"`  // a kernel module that is loaded
	Reboot  string          `json:"reboot,omitempty"`  // what takes effect at the next boot, for people
	Object  kube.ObjectKind `json:"object,omitzero"`   // the API server will serve objects of this kind
	Tokens  bool            `json:"tokens,omitempty"`  // the node's bootstrap tokens
}

// Key is the form of t that is equal for equal things of the OS. Text for people stays as
// it is.
func (t Touch) Key(os string) Touch {
	if t.Path != "" {
		t.Path = host.PathKey(os, t.Path)
	}
	if os == "windows" {
		t.Service = strings.ToLower(t.Service) // the names of services have no case there
	}
	return t
}
