package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// world is where the scenes of one size play: a folder with plans and their sandboxes. After an error the rest does
// nothing.
type world struct {
	size
	dir     string
	program string
	env     []string
	waiting *terminal // whose program waits for a later scene
	head    []line    // the first lines of the first apply
	err     error
}

func newWorld(dir, repository, program string, s size) (*world, error) {
	w := &world{size: s, dir: dir, program: program}
	w.env = []string{"HOME=" + dir, "XDG_STATE_HOME=" + filepath.Join(dir, ".state"), "TERM=xterm-256color",
		"LANG=C.UTF-8", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "TZ=UTC",
		"GOGC=400"} // fifty small machines: processor time counts, not memory
	for _, plan := range []string{"prod", "fleet"} {
		to := filepath.Join(dir, plan)
		from := filepath.Join(repository, "examples", "quickstart")
		if err := os.CopyFS(filepath.Join(to, "mirror"), os.DirFS(filepath.Join(from, "mirror"))); err != nil {
			return nil, err
		}
		for name, as := range map[string]string{
			"quickstart.join.hcl": plan + ".join.hcl", "nodejoin.lock.hcl": "nodejoin.lock.hcl",
		} {
			text, err := os.ReadFile(filepath.Join(from, name))
			if err != nil {
				return nil, err
			}
			if err := os.WriteFile(filepath.Join(to, as), text, 0o600); err != nil {
				return nil, err
			}
		}
	}
	return w, nil
}

// play plays all scenes, in their order.
func (w *world) play(ctx context.Context) ([]shot, error) {
	var out []shot
	for _, s := range scenes {
		lines := s.play(ctx, w)
		if w.err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, w.err)
		}
		for _, l := range lines {
			for i := range l {
				l[i].text = anonymous.Replace(l[i].text)
			}
		}
		out = append(out, shot{s.name, lines})
		if s.name == "first-apply" {
			out = append(out, shot{readme, slices.Concat(w.head, []line{{{"d", more}}, nil}, since(lines, "Plan on "))})
		}
	}
	return out, nil
}

// anonymous leaves out the machine on which the pictures are taken.
var anonymous = func() *strings.Replacer {
	name, err := os.Hostname()
	if err != nil {
		return strings.NewReplacer()
	}
	return strings.NewReplacer(" on "+name, " on controller", name+" (", "controller (")
}()

// shot is what a scene shows.
type shot struct {
	scene string
	lines []line
}

func (s shot) title() string {
	for _, c := range scenes {
		if c.name == s.scene {
			return c.title
		}
	}
	return "nodejoin apply: the plan, the run, the result"
}

// quietly runs a command off the screen.
func (w *world) quietly(ctx context.Context, args ...string) {
	if w.err != nil {
		return
	}
	c := exec.CommandContext(ctx, w.program, args...)
	c.Dir, c.Env = w.dir, w.env
	if out, err := c.CombinedOutput(); err != nil {
		w.err = fmt.Errorf("%s: %w:\n%s", c, err, out)
	}
}

// open is a window.
func (w *world) open() *terminal { return newTerminal(w.size, w.dir, w.env) }

// start begins a command in a window.
func (w *world) start(ctx context.Context, t *terminal, args ...string) {
	w.try(func() error { return t.start(ctx, w.program, args...) })
}

// run runs a command in a window to its end.
func (w *world) run(ctx context.Context, t *terminal, code int, args ...string) {
	w.start(ctx, t, args...)
	w.try(func() error { return t.wait(code) })
}

func (w *world) try(f func() error) {
	if w.err == nil {
		w.err = f()
	}
}

// edit replaces a text in a file of the world; old texts and new ones take turns.
func (w *world) edit(name string, oldnew ...string) {
	w.try(func() error {
		text, err := os.ReadFile(filepath.Join(w.dir, name))
		if err != nil {
			return err
		}
		for i := 0; i < len(oldnew); i += 2 {
			if !bytes.Contains(text, []byte(oldnew[i])) {
				return fmt.Errorf("%s has no %q", name, oldnew[i])
			}
		}
		text = []byte(strings.NewReplacer(oldnew...).Replace(string(text)))
		return os.WriteFile(filepath.Join(w.dir, name), text, 0o600)
	})
}

// write writes a file of the world; with no text it is removed.
func (w *world) write(name, text string) {
	w.try(func() error {
		file := filepath.Join(w.dir, name)
		if text == "" {
			return os.Remove(file)
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		return os.WriteFile(file, []byte(text), 0o600)
	})
}

// archive is a tar file, packed, and its digest. Each of its members has the same content.
func archive(content []byte, members ...string) (packed []byte, digest string) {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	tw := tar.NewWriter(gz)
	// Nothing of it fails: a buffer takes all.
	for _, m := range members {
		_ = tw.WriteHeader(&tar.Header{Name: m, Mode: 0o755, Size: int64(len(content))})
		_, _ = tw.Write(content)
	}
	_ = tw.Close()
	_ = gz.Close()
	sum := sha256.Sum256(b.Bytes())
	return b.Bytes(), hex.EncodeToString(sum[:])
}

// noise are bytes that cannot be packed, always the same.
func noise(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// depot serves a file that some hosts get only in part until it is released.
type depot struct {
	http.Server
	address string
	part    map[string]float64 // by host
	content []byte
	release chan struct{}
}

func openDepot(ctx context.Context, content []byte, part map[string]float64) (*depot, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &depot{address: l.Addr().String(), part: part, content: content, release: make(chan struct{})}
	d.Handler, d.ReadHeaderTimeout = http.HandlerFunc(d.serve), time.Minute
	go func() { _ = d.Serve(l) }() // Close ends it
	return d, nil
}

// piece is so small that one read gets it, so that the receiver reports exactly what it has.
const piece = 512

func (d *depot) serve(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	w.Header().Set("Content-Length", fmt.Sprint(len(d.content)))
	rest := d.content
	send := func(n int) {
		_, _ = w.Write(rest[:n])
		rest = rest[n:]
		_ = http.NewResponseController(w).Flush()
	}
	if part := d.part[name]; part > 0 {
		n := int(part * float64(len(rest)))
		for _, next := range []int{piece, n / 2, piece, n - n/2 - 3*piece, piece} {
			send(next)
			select {
			case <-d.release:
			case <-time.After(300 * time.Millisecond): // a receiver reports every 200 ms
			}
		}
		select {
		case <-d.release:
		case <-r.Context().Done():
			return
		}
	}
	send(len(rest))
}
