package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/wait"
)

const (
	// importDir is the folder below nodejoin's own that holds the archive while it is imported.
	importDir = "import"
	// criNamespace is where containerd keeps the images of the CRI (containerd pkg/cri/constants,
	// K8sContainerdNamespace).
	criNamespace = "k8s.io"
	// importSeen bounds how long the CRI takes to know an image that was imported: containerd tells it by an event.
	importSeen = 30 * time.Second
)

// imageImport is an image that comes with the plan.
type imageImport struct {
	name, address, program string       // of the image, the runtime, and ctr
	archive                steps.Source // an OCI image layout in a tar archive
}

// load imports the image from its archive with ctr, and waits until the CRI knows it.
func (i imageImport) load(ctx context.Context, h host.Host, e *steps.Env) (err error) {
	os := e.Facts.OS
	dir := host.Join(os, e.Facts.DataDir, importDir)
	archive, log := host.Join(os, dir, "image.tar"), host.Join(os, dir, "output.log")
	defer func() {
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, steps.RemoveTree(bound, h, os, dir))
	}()
	if err := i.unpack(ctx, h, e, dir, archive); err != nil {
		return err
	}
	e.Progress(event.StepProgress{Note: "the runtime imports " + i.name})
	code, err := h.RunProgram(ctx, host.Program{Log: log, Command: []string{i.program, "--address", i.address,
		"--namespace", criNamespace, "images", "import", archive}})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return i.notImported(fmt.Sprintf("%s is not there", i.program), "let the plan install containerd")
	case err != nil:
		return err
	case code != 0:
		return i.failed(ctx, h, dir, fmt.Sprintf("%s ended with exit code %d", i.program, code)+logTail(ctx, h, log))
	}
	return i.seen(ctx, h)
}

// room is what a disk has free where programs can still write what they say, in bytes.
const room = 1 << 20

// failed is the error of an import that ended with why. On a full disk ctr may say nothing, as its log is there, too.
func (i imageImport) failed(ctx context.Context, h host.Host, dir, why string) error {
	e := i.notImported(why, "read what it says; then run the same command again")
	free, err := h.FreeBytes(ctx, dir)
	if err == nil && free < room || saysFull(why) {
		e.Code, e.Summary = steps.CodeNoSpace, "disk full"
		e.Remedy = "free space on the disks of " + dir + " and of containerd's images; then run the same command again"
	}
	return e
}

// unpack writes the archive, verified, beside nodejoin's other files.
func (i imageImport) unpack(ctx context.Context, h host.Host, e *steps.Env, dir, archive string) error {
	d, err := fetch(ctx, e, i.archive)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := h.Mkdir(ctx, dir, host.AccessPrivate); err != nil {
		return err
	}
	if err := h.WriteFile(ctx, archive, d, host.WriteOptions{Access: host.AccessPrivate}); err != nil {
		return err
	}
	return d.drain()
}

// seen waits until the CRI has the image.
func (i imageImport) seen(ctx context.Context, h host.Host) error {
	ctx, cancel := context.WithTimeoutCause(ctx, importSeen, i.notImported(fmt.Sprintf("containerd has imported the "+
		"archive, and its CRI does not list the image within %s", importSeen), "make the bundle again; its archive may "+
		"be of another platform or name"))
	defer cancel()
	return wait.Until(ctx, time.Second, func() (bool, error) {
		have, err := h.Image(ctx, i.address, i.name)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return have != nil, err
	})
}

func (i imageImport) notImported(why, remedy string) *steps.Error {
	return &steps.Error{Code: steps.CodeFailed, Summary: "image not imported",
		Detail: i.name + " was not imported: " + why, Remedy: remedy}
}

// saysFull reports whether a program says that a disk is full, with the text of the system: ENOSPC of Go and of glibc,
// ERROR_DISK_FULL of Windows. It has no other way to say so.
func saysFull(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "no space left on device") || strings.Contains(text, "not enough space on the disk")
}
