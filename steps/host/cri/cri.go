// Package cri lists and removes the pods of a container runtime over its CRI, and lists and pulls images
// (kubernetes/cri-api pkg/apis/runtime/v1/api.proto), with the few messages that this takes.
package cri

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"nodejoin/steps/host"
	"nodejoin/steps/host/probe"
)

// Bounds of one call: a pod that stops has its network taken away by the CNI plugins.
const (
	listTakes   = 10 * time.Second
	removeTakes = time.Minute
)

// unimplemented is the gRPC status of a method that a server does not have
// (grpc.github.io/grpc/core/md_doc_statuscodes.html).
const unimplemented = "12"

// Runtime is a container runtime that serves the CRI at a pipe or socket of this machine.
type Runtime struct {
	Dial    probe.Dialer
	Address string
}

// Pods lists its pods, those that have ended too. A runtime that does not run is
// fs.ErrNotExist.
func (r Runtime) Pods(ctx context.Context) ([]host.Pod, error) {
	reply, err := r.call(ctx, listTakes, "RuntimeService/ListPodSandbox", nil)
	if err != nil {
		return nil, err
	}
	var out []host.Pod
	err = fields(reply, func(number protowire.Number, value []byte) error {
		if number != 1 { // items
			return nil
		}
		p, err := pod(value)
		out = append(out, p)
		return err
	})
	return out, err
}

// Images lists its images. A runtime that does not run is fs.ErrNotExist.
func (r Runtime) Images(ctx context.Context) ([]host.Image, error) {
	reply, err := r.call(ctx, listTakes, "ImageService/ListImages", nil)
	if err != nil {
		return nil, err
	}
	out := []host.Image{}
	err = fields(reply, func(number protowire.Number, value []byte) error {
		if number != 1 { // images
			return nil
		}
		i, err := image(value)
		out = append(out, i)
		return err
	})
	return host.SortImages(out), err
}

// Image is the image of a name, as pods give it; nil if the runtime has none. A runtime that does not run is
// fs.ErrNotExist.
func (r Runtime) Image(ctx context.Context, name string) (*host.Image, error) {
	reply, err := r.call(ctx, listTakes, "ImageService/ImageStatus", imageSpec(name))
	if err != nil {
		return nil, err
	}
	var out *host.Image
	err = fields(reply, func(number protowire.Number, value []byte) error {
		if number != 1 { // image; there is none where the runtime has none
			return nil
		}
		i, err := image(value)
		out = &i
		return err
	})
	return out, err
}

// Pull pulls an image and waits for it, bounded by ctx alone. The runtime does not read again what it has of it.
func (r Runtime) Pull(ctx context.Context, name string) error {
	reply, err := r.call(ctx, 0, "ImageService/PullImage", imageSpec(name))
	var status *probe.GRPCError
	if errors.As(err, &status) {
		text, bad := url.PathUnescape(status.Message)
		if bad != nil {
			text = status.Message
		}
		return &host.PullError{Image: name, Message: text}
	}
	if err != nil {
		return err
	}
	ref := ""
	err = fields(reply, func(number protowire.Number, value []byte) error {
		if number == 1 { // image_ref
			ref = string(value)
		}
		return nil
	})
	if err == nil && ref == "" {
		err = errors.New("the container runtime pulled an image and did not name it")
	}
	return err
}

// imageSpec is a request whose first field is an ImageSpec, whose first field is the name.
func imageSpec(name string) []byte {
	spec := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), spec)
}

// Remove stops and removes a pod; its absence is no error.
func (r Runtime) Remove(ctx context.Context, id string) error {
	request := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), id) // pod_sandbox_id
	for _, method := range []string{"RuntimeService/StopPodSandbox", "RuntimeService/RemovePodSandbox"} {
		if _, err := r.call(ctx, removeTakes, method, request); err != nil {
			return err
		}
	}
	return nil
}

// call makes a call in the version of the CRI that the runtime has: v1, or v1alpha2 before containerd 1.6. takes
// bounds it; 0 = only ctx does.
func (r Runtime) call(ctx context.Context, takes time.Duration, method string, request []byte) ([]byte, error) {
	if takes > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, takes,
			fmt.Errorf("the container runtime at %s has not answered %s within %s", r.Address, method, takes))
		defer cancel()
	}
	reply, err := probe.Unary(ctx, r.Dial, r.Address, "/runtime.v1."+method, request)
	var status *probe.GRPCError
	if errors.As(err, &status) && status.Status == unimplemented {
		reply, err = probe.Unary(ctx, r.Dial, r.Address, "/runtime.v1alpha2."+method, request)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return reply, err
}

// pod reads a PodSandbox.
func pod(message []byte) (p host.Pod, err error) {
	err = fields(message, func(number protowire.Number, value []byte) error {
		switch number {
		case 1:
			p.ID = string(value)
		case 2: // metadata
			return fields(value, func(number protowire.Number, value []byte) error {
				switch number {
				case 1:
					p.Name = string(value)
				case 3:
					p.Namespace = string(value)
				}
				return nil
			})
		case 3: // state; protobuf leaves out SANDBOX_READY, which is 0
			state, n := protowire.ConsumeVarint(value)
			p.Ended = state != 0
			return protowire.ParseError(min(n, 0))
		}
		return nil
	})
	if err == nil && p.ID == "" {
		err = errors.New("the container runtime listed a pod without an id")
	}
	return p, err
}

// image reads an Image.
func image(message []byte) (i host.Image, err error) {
	err = fields(message, func(number protowire.Number, value []byte) error {
		switch number {
		case 1:
			i.ID = string(value)
		case 2: // repo_tags
			i.Tags = append(i.Tags, string(value))
		case 3: // repo_digests
			i.Digests = append(i.Digests, string(value))
		case 4:
			size, n := protowire.ConsumeVarint(value)
			i.Size = size
			return protowire.ParseError(min(n, 0))
		case 8:
			pinned, n := protowire.ConsumeVarint(value)
			i.Pinned = pinned != 0
			return protowire.ParseError(min(n, 0))
		}
		return nil
	})
	if err == nil && i.ID == "" {
		err = errors.New("the container runtime listed an image without an id")
	}
	return i, err
}

// fields gives the fields of a message: the content of strings and messages, the encoded value of others.
func fields(message []byte, field func(number protowire.Number, value []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("a message of the container runtime: %w", protowire.ParseError(n))
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
				return fmt.Errorf("a message of the container runtime: %w", protowire.ParseError(n))
			}
			if err := field(number, message[:n]); err != nil {
				return err
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return fmt.Errorf("a message of the container runtime: %w", protowire.ParseError(n))
		}
		message = message[n:]
		if err := field(number, value); err != nil {
			return err
		}
	}
	return nil
}
