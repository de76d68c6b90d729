package kinds

import (
	"context"
	"errors"
	"io/fs"
	"regexp"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

var kernelModuleKind = steps.Kind{Name: "kernel_module", Place: steps.OnHost, Image: true, OS: "linux",
	Doc:   "Linux: a module of the kernel, loaded now and at every boot, or built in",
	New:   func() any { return &KernelModule{} },
	Makes: steps.Makes((*KernelModule).thing)}

// KernelModule is a loaded module and the file that loads it at boot,
// /etc/modules-load.d/nodejoin-NAME.conf (modules-load.d(5)). What is built into the
// kernel needs neither. A leave takes the file away; the module stays loaded until the
// next boot, as others may use it by then.
type KernelModule struct {
	Name string `json:"name" doc:"its name, for example br_netfilter" id:"true"`
}

func (m *KernelModule) thing(string) steps.Thing {
	return steps.Thing{Key: record.File.Of(m.file().Path)}
}

var moduleName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*$`)

func (m *KernelModule) validate(os string) error {
	switch {
	case os == "windows":
		return steps.Invalid("kernel module %s: Windows has none", m.Name)
	case !moduleName.MatchString(m.Name):
		return steps.Invalid("%q is not the name of a kernel module such as br_netfilter", m.Name)
	}
	return nil
}

func (m *KernelModule) file() *File {
	return &File{Path: "/etc/modules-load.d/nodejoin-" + m.Name + ".conf",
		Content: "# Managed by nodejoin.\n" + m.Name + "\n"}
}

func (m *KernelModule) Check(ctx context.Context, r host.Reader, e *steps.Env) (steps.Change, error) {
	if err := m.validate(e.Facts.OS); err != nil {
		return steps.Change{}, err
	}
	var diffs []steps.Diff
	how, err := r.KernelModule(ctx, m.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		diffs = append(diffs, steps.Diff{Name: "state", Want: string(host.ModuleLoaded)})
	case err != nil:
		return steps.Change{}, err
	case how == host.ModuleBuiltIn:
		return steps.Change{}, nil
	}
	boot, err := m.file().Check(ctx, r, e)
	c := atBoot(diffs, boot, m.file().Path)
	if len(diffs) > 0 {
		c.Touches = append(c.Touches, steps.Touch{Module: m.Name})
	}
	return c, err
}

// Apply loads the module first: the file of one that cannot be loaded would fail at
// every boot.
func (m *KernelModule) Apply(ctx context.Context, h host.Host, e *steps.Env, _ steps.Change) (steps.Outcome, error) {
	how, err := h.KernelModule(ctx, m.Name)
	if errors.Is(err, fs.ErrNotExist) {
		err = h.LoadKernelModule(ctx, m.Name)
	}
	if err != nil || how == host.ModuleBuiltIn {
		return steps.Outcome{}, err
	}
	return steps.Outcome{}, applyFile(ctx, h, e, m.file())
}
