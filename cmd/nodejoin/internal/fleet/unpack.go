package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"nodejoin/cmd/nodejoin/internal/modules"
	"nodejoin/plan/source"
)

// unpackPlan reads a plan from a registry into a folder, with the files that Secrets have in the folder over it.
func (x *command) unpackPlan(ctx context.Context, to string) error {
	address, digest, ok := strings.Cut(x.PlanImage, "@sha256:")
	if !ok {
		return fmt.Errorf("--plan-image %q has no digest", x.PlanImage)
	}
	say := func(text string) { _, _ = fmt.Fprintln(x.Err, text) }
	dir, err := modules.Reader(ctx, modules.Options{Notice: say})(source.Remote{Address: address, SHA256: digest})
	if err != nil {
		return err
	}
	for _, from := range []string{dir, x.over} {
		if err := copyFiles(to, from); err != nil {
			return err
		}
	}
	return nil
}

// copyFiles copies a folder, and follows links: a volume of Kubernetes has them. Names that begin with ".." are the
// volume's own.
func copyFiles(to, from string) error {
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		fi, err := os.Stat(source)
		if err != nil {
			return err
		}
		if fi.IsDir() {
			err = copyFiles(target, source)
		} else {
			var b []byte
			if b, err = os.ReadFile(source); err == nil {
				err = os.WriteFile(target, b, 0o600)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
