package locker

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/lock"
	"nodejoin/plan/source"
	"nodejoin/steps"
)

// ModuleDigest is for the plan that is locked: it reads by read what digest a module has now. One that is not as it
// was locked is not read any further, unless upgrade takes it: it may run programs of the plan.
func ModuleDigest(read func(address string) (sha256 string, err error), upgrade bool,
) func(address, locked string) (sha256 string, err error) {
	return func(address, locked string) (string, error) {
		now, err := read(address)
		if err == nil && locked != "" && locked != now && !upgrade {
			err = fmt.Errorf("%s now has the sha256 %s; locked is %s. Publishers do not change what they have "+
				"released, so it may have been tampered with. Ask its publisher; "+
				"'nodejoin lock --upgrade' takes it as it is now", steps.ShowURL(address), now, locked)
		}
		return now, err
	}
}

// addModules adds the modules of which the plan gives no digest.
func addModules(f *lock.File, modules []source.Remote) (out []*hcl.Diagnostic) {
	for _, m := range modules {
		before := f.LookupModule(m.Locked)
		switch {
		case m.Locked == "":
		case before == nil:
			f.Modules = append(f.Modules, lock.Module{Address: m.Locked, SHA256: m.SHA256})
		case before.SHA256 != m.SHA256:
			out = append(out, fault(hcl.Range{}, "two modules of one name", "%s has two archives, by the part of its "+
				"address that a lock does not show. Give one of them its sha256 in the plan.", m.Locked))
		}
	}
	return out
}
