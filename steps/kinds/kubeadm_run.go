package kinds

import (
	"context"
	"fmt"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// kubeadmProgram is a kubeadm on the host.
type kubeadmProgram struct {
	path    string
	log     string // file for what it prints
	version string // of Kubernetes; "" = not known
}

// outdated returns the version of kubeadm that wrote the kubelet's settings, if it is another one, or "unknown
// version".
func (p kubeadmProgram) outdated(e *steps.Env) string {
	have := e.Record.Archives[e.StepID].Digest
	switch {
	case p.version == "" || have == p.version:
		return ""
	case have == "":
		return "unknown version"
	}
	return have
}

// run lets it run to its end, and notes its version after it has succeeded.
func (p kubeadmProgram) run(ctx context.Context, h host.Host, e *steps.Env, args ...string) error {
	code, err := h.RunProgram(ctx, host.Program{Command: append([]string{p.path}, args...),
		PathFirst: host.Dir(e.Facts.OS, p.path), Log: p.log})
	if err != nil {
		return fmt.Errorf("%w%s", err, logTail(ctx, h, p.log))
	}
	if code != 0 {
		return kubeadmFailed(ctx, h, args[0], p.log, code)
	}
	if p.version == "" {
		return nil
	}
	e.SetArchive(record.Unpacked{Digest: p.version})
	return e.Record.Save(ctx, h, e.Facts)
}
