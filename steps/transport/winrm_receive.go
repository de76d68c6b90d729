package transport

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"nodejoin/steps/transport/wire"
	"nodejoin/steps/transport/wsman"
)

const (
	// Each program has one message under way, so that their number makes up for a long round trip: one more for each
	// 4 ms, which is what a message takes at 1 Gbit/s. What is under way to all of them is within wire.InFlight, unless
	// one stalls; then what a cut leaves is no beginning of the artifact, and all of it is sent again. They are far
	// below the 25 to 30 shells that WinRM gives a user (winrm/config/winrs).
	leastReceivers = 3
	mostReceivers  = 10
	partTime       = 4 * time.Millisecond
	// fewParts is from how many parts on an artifact goes to programs of its own, and partsEach how many parts each of
	// them has to get: starting and ending one costs more round trips than that.
	fewParts  = 8
	partsEach = 4
)

// receiversFor is how many programs receive an artifact of so many parts.
func receiversFor(parts int64, roundTrip time.Duration) int64 {
	return min(leastReceivers+int64(roundTrip/partTime), mostReceivers, parts/partsEach)
}

// receiver is a program of the machine that writes parts of an artifact, in a shell of its own.
type receiver struct {
	client *wsman.Client
	shell  *wsman.Shell
	cmd    *wsman.Command
}

// receivers starts the programs, as many as the machine starts.
func (s *winrmConn) receivers(ctx context.Context, u *upload) []*receiver {
	ctx, cancel := s.both(ctx)
	defer cancel()
	found := make([]*receiver, receiversFor((u.blob.Size-u.from)/wsman.Chunk, s.client.RoundTrip()))
	var starts errgroup.Group
	for i := range found {
		starts.Go(func() error {
			r := &receiver{client: s.client.Fork()}
			var err error
			if r.shell, err = r.client.Open(ctx); err == nil {
				r.cmd, err = r.shell.Start(ctx, s.file.receive(u.blob.Digest, u.blob.Size))
			}
			if err != nil {
				r.close(ctx)
				return nil //nolint:nilerr // the others do
			}
			found[i] = r
			return nil
		})
	}
	_ = starts.Wait()
	var out []*receiver
	for _, r := range found {
		if r != nil {
			out = append(out, r)
		}
	}
	return out
}

// both ends with ctx and with the connection.
func (s *winrmConn) both(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// spread sends an artifact to several programs.
func (s *winrmConn) spread(ctx context.Context, u *upload, all []*receiver) error {
	within, cancel := s.both(ctx)
	defer cancel()
	sending, sent := errgroup.WithContext(within)
	frames, used := make(chan []byte), make(chan []byte, len(all)+1)
	for _, r := range all {
		sending.Go(func() error {
			defer r.close(within)
			for f := range frames {
				if err := r.cmd.Send(sent, f, false); err != nil {
					return s.unsent(sent, r, err)
				}
				used <- f
			}
			if err := r.cmd.Send(sent, nil, true); err != nil {
				return s.unsent(sent, r, err)
			}
			return s.written(sent, r)
		})
	}
	sending.Go(func() error {
		defer close(frames)
		return u.frames(sent, frames, used)
	})
	err := sending.Wait()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.lostBy() != nil:
		return lostConnection(s.lostBy())
	}
	return err
}

// frames reads the artifact into frames that are used already, or into new ones.
func (u *upload) frames(ctx context.Context, to chan<- []byte, used <-chan []byte) error {
	for at := u.from; at < u.blob.Size; {
		n := min(wsman.Chunk-wire.FrameHead, u.blob.Size-at)
		var f []byte
		select {
		case f = <-used:
		default:
			f = make([]byte, wsman.Chunk)
		}
		f = f[:wire.FrameHead+n]
		binary.BigEndian.PutUint64(f, uint64(at))
		binary.BigEndian.PutUint32(f[8:], uint32(n))
		if _, err := io.ReadFull(u.meter, f[wire.FrameHead:]); err != nil {
			return fmt.Errorf("read %s: %w", u.src.File, err)
		}
		at += n
		select {
		case to <- f:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// unsent is the error of a program that takes no more: it has ended, and what it wrote says more; or it is lost.
func (s *winrmConn) unsent(ctx context.Context, r *receiver, err error) error {
	var refused *wsman.FaultError
	if !errors.As(err, &refused) {
		return s.broken(ctx, err)
	}
	within, cancel := context.WithTimeout(ctx, closeBound)
	defer cancel()
	return cmp.Or(s.written(within, r), err)
}

// written waits until the program has written its parts.
func (s *winrmConn) written(ctx context.Context, r *receiver) error {
	said := ""
	for {
		o, err := r.cmd.Receive(ctx)
		if err != nil {
			return s.broken(ctx, err)
		}
		said += string(o.Stderr[:min(len(o.Stderr), tailSize)])
		switch {
		case o.Done && o.ExitCode != 0:
			return fmt.Errorf("the machine does not write the artifact: %s",
				strings.TrimSpace(strings.ToValidUTF8(said, "?")))
		case o.Done:
			return nil
		}
	}
}

// close ends the program, if it still runs, and its shell.
func (r *receiver) close(ctx context.Context) {
	if r.shell != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeBound)
		defer cancel()
		_ = r.shell.Delete(end) // else the machine ends it by itself
	}
	r.client.Close()
}
