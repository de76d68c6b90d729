package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/transport/wire"
)

// foreignSuffix ends the name of what lay in nodejoin's place and others could have made; a time follows.
const foreignSuffix = ".foreign-"

// secure closes nodejoin's folder to all but the system and administrators. A folder that others could have
// made, and what is in one that others could write to, is moved out of the way first: it would be believed,
// and undone, as nodejoin's own.
func (s *server) secure(ctx context.Context, _ wire.None) (wire.Secured, error) {
	var out wire.Secured
	dir := s.opt.DataDir
	if err := s.moveForeign(ctx, dir, &out); err != nil {
		return out, err
	}
	if err := s.opt.Host.Mkdir(ctx, dir, host.AccessPrivate); err != nil {
		return out, err
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return out, err
	}
	for _, e := range list {
		if e.IsDir() || e.Name() == "record.json" || e.Name() == "history.json" {
			if err := s.moveForeign(ctx, filepath.Join(dir, e.Name()), &out); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// moveForeign renames what others could have made or can change. A link goes, not what it leads to.
func (s *server) moveForeign(ctx context.Context, path string, out *wire.Secured) error {
	err := host.Own(ctx, s.opt.Host, path)
	if !errors.Is(err, host.ErrForeign) {
		return err
	}
	to := path + foreignSuffix + time.Now().UTC().Format("20060102T150405Z")
	if err := os.Rename(path, to); err != nil {
		return &host.Error{Op: "move out of the way", Subject: path, Err: err}
	}
	out.Moved = append(out.Moved, to)
	return nil
}

// own makes nodejoin's folder where it is missing, and refuses one that others could have made.
func (s *server) own(ctx context.Context) error {
	if err := host.Own(ctx, s.opt.Host, s.opt.DataDir); err != nil {
		return err
	}
	if _, err := os.Stat(s.opt.DataDir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.opt.Host.Mkdir(ctx, s.opt.DataDir, host.AccessPrivate)
}

// checkProgram refuses to work as a program that others can change, and in a folder where they could have put it.
// On Windows the folder of the user that logs in keeps others away.
func checkProgram(ctx context.Context, opt Options) error {
	if opt.Program == "" || opt.Hello.OS != "linux" {
		return nil
	}
	if opt.Owner != 0 {
		return checkWay(opt.Program, opt.Owner)
	}
	dir := filepath.Dir(opt.Program)
	for _, path := range []string{opt.Program, dir, filepath.Dir(dir)} {
		fi, err := opt.Host.Stat(ctx, path)
		if err != nil {
			return err
		}
		if fi.Open {
			return &host.Error{Op: "run from", Subject: path, Err: host.ErrForeign}
		}
	}
	return nil
}
