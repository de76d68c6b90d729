package kinds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
)

var imageKind = steps.Kind{Name: "image", Place: steps.OnHost, Image: true, Timeout: time.Hour,
	Doc: "an image that the container runtime has: it pulls the image, with the registries and credentials of its own " +
		"configuration, unless it has one of that name. The image is the runtime's: the kubelet removes it where the " +
		"disk is full and no pod uses it",
	New: func() any { return &Image{} }}

// Image is an image of the container runtime.
type Image struct {
	Address string `json:"address" doc:"\\\\.\\pipe\\NAME or the path of a unix socket, where the runtime serves the CRI"`
	Image   string `json:"image" doc:"its name, as pods give it" id:"true"`

	// Of an image that comes with the plan: an OCI image layout in a tar archive on the controller, and the path of
	// ctr, which imports it. The CRI has no import.
	File    string `json:"file,omitempty" lang:"-"`
	SHA256  string `json:"sha256,omitempty" lang:"-"`
	Program string `json:"program,omitempty" lang:"-"`
}

func (i *Image) archive() steps.Source { return steps.Source{File: i.File, SHA256: i.SHA256} }

// Check asks the runtime for the image. While it does not serve yet, the image counts as missing.
func (i *Image) Check(ctx context.Context, r host.Reader, _ *steps.Env) (steps.Change, error) {
	have, err := r.Image(ctx, i.Address, i.Image)
	missing := steps.Change{Action: steps.ActionCreate, Diffs: []steps.Diff{{Name: "image", Want: i.Image}},
		Blobs: blobs(i.archive())}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		missing.Reason = "the container runtime does not run yet"
		return missing, nil
	case err != nil:
		return steps.Change{}, err
	case have == nil:
		return missing, nil
	}
	return steps.Change{}, nil
}

// Apply has the runtime pull the image, or imports it.
func (i *Image) Apply(ctx context.Context, h host.Host, e *steps.Env, _ steps.Change) (steps.Outcome, error) {
	if i.File != "" {
		return steps.Outcome{}, imageImport{i.Image, i.Address, i.Program, i.archive()}.load(ctx, h, e)
	}
	pulled := make(chan error, 1)
	began := time.Now()
	go func() { pulled <- h.PullImage(ctx, i.Address, i.Image) }()
	tick := time.NewTicker(pullNews)
	defer tick.Stop()
	for {
		select {
		case err := <-pulled:
			return steps.Outcome{}, i.explain(err)
		case <-tick.C:
			e.Progress(event.StepProgress{Note: fmt.Sprintf("the runtime pulls %s, for %s", i.Image,
				time.Since(began).Round(time.Second))})
		}
	}
}

// pullNews is how often a pull is reported. The CRI does not say how far it is.
const pullNews = 5 * time.Second

// explain says what the runtime answered.
func (i *Image) explain(err error) error {
	var answer *host.PullError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &steps.Error{Code: steps.CodeFailed, Summary: "image not pulled",
			Detail: fmt.Sprintf("no container runtime serves the CRI at %s, so nothing can pull %s", i.Address, i.Image),
			Remedy: "start the runtime; then run the same command again"}
	case errors.As(err, &answer) && saysFull(answer.Message):
		return &steps.Error{Code: steps.CodeNoSpace, Summary: "disk full", Detail: answer.Error(),
			Remedy: "free space on the disk of the runtime's images; then run the same command again"}
	case errors.As(err, &answer):
		return &steps.Error{Code: steps.CodeFailed, Summary: "image not pulled", Detail: answer.Error(),
			Remedy: "check the name and the registry blocks of the plan (mirrors, ca, credentials); then run the same " +
				"command again"}
	}
	return err
}
