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

// WillChange reports which earlier step of a plan is about to alter t, or a folder that
// holds it.
func (e *Env) WillChange(t Touch) (step string, ok bool) {
	for t = t.Key(e.Facts.OS); ; {
		if step, ok = e.Pending[t]; ok || t.Path == "" {
			return step, ok
		}
		dir := host.PathKey(e.Facts.OS, host.Dir(e.Facts.OS, t.Path))
		if dir == t.Path || len(dir) >= len(t.Path) {
			return "", false
		}
		t.Path = dir
	}
}

// FutureDigest is what the file at path will hold once the earlier steps of a plan are
// applied: a sha256 or AbsentFile. ok is false where they do not alter it, or that is not
// known.
func (e *Env) FutureDigest(path string) (digest string, ok bool) {
	digest, ok = e.Future[Touch{Path: path}.Key(e.Facts.OS)]
	return digest, ok
}
