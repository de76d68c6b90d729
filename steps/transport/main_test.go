package transport

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"nodejoin/steps"
	store "nodejoin/steps/artifact"
	"nodejoin/steps/host"
	"nodejoin/steps/host/sandbox"
	"nodejoin/steps/transport/agent"
	"nodejoin/steps/transport/wire"
)

// The test program is its own agent: pushed to a folder and started there with
// "serve", it answers with a host of plain files.
func TestMain(m *testing.M) {
	becomeInTest()
	outside := len(os.Args) == 3 && os.Args[1] == "outside"
	if len(os.Args) >= 3 && os.Args[1] == "serve" || outside && inside(os.Args[2]) != "" {
		if err := serveTestAgent(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if outside {
		code, err := agent.Outside("serve", os.Args[2])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(code)
	}
	if len(os.Args) == 5 && os.Args[1] == "receive" {
		data, err := hex.DecodeString(os.Args[2])
		size, err2 := strconv.ParseInt(os.Args[4], 10, 64)
		blob := wire.Blob{Algorithm: steps.DigestAlgorithm(os.Args[3]), Digest: os.Args[3], Size: size}
		if err := errors.Join(err, err2, agent.Receive(os.Stdin, "linux", string(data), blob)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// the ignored goroutines never end; the second one is of winrmtest
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/Microsoft/go-winio.ioCompletionProcessor"),
		goleak.IgnoreAnyFunction("github.com/jcmturner/gokrb5/v8/service.GetReplayCache.func1.1"))
}

// inside is why an agent with this data folder, in hex, runs in its shell; "" = it does not.
func inside(folder string) string {
	dir, err := hex.DecodeString(folder)
	if err != nil {
		return ""
	}
	why, _ := os.ReadFile(filepath.Join(string(dir), "inside"))
	return string(why)
}

func serveTestAgent(args []string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	data, err := hex.DecodeString(args[0])
	if err != nil {
		return err
	}
	dir := string(data)
	if why, err := os.ReadFile(filepath.Join(dir, "crash")); err == nil {
		return errors.New(string(why))
	}
	if _, err := os.Stat(filepath.Join(dir, "crash in a call")); err == nil {
		go func() {
			<-crashNow
			_ = os.WriteFile(exe+wire.CrashSuffix, []byte("panic: the last words"), 0o600)
			os.Exit(2)
		}()
	}
	owner := 0
	if len(args) > 1 {
		if owner, err = strconv.Atoi(args[1]); err != nil {
			return err
		}
	}
	var sent agent.Sent
	if len(args) > 2 {
		sent.Digest = args[2]
	}
	if len(args) > 4 {
		sent.Packed, sent.Sum = args[3], args[4]
	}
	digest, err := agent.Digest(exe, owner, sent)
	if err != nil {
		return err
	}
	return agent.Serve(context.Background(), os.Stdin, os.Stdout, agent.Options{Owner: owner, Secure: sent.Digest,
		Host: newFileHost(dir), DataDir: dir, Program: exe,
		Artifacts: store.New(store.Options{BlobDir: agent.BlobDir("linux", dir)}),
		Hello: wire.Hello{Protocol: wire.Protocol, OS: "linux", Arch: runtime.GOARCH, Digest: digest,
			Inside: inside(args[0])},
	})
}

// agentsIn are the programs in the agents' folder of a machine, without the notes of their digests.
func agentsIn(home string) ([]os.DirEntry, error) {
	list, err := os.ReadDir(filepath.Join(home, ".nodejoin", "agent"))
	return slices.DeleteFunc(list, func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), ".sum") }), err
}

func fileDigest(path string) (string, error) {
	b, err := os.ReadFile(path)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), err
}

// crashNow is closed by a call that crashes the agent.
var crashNow = make(chan struct{})

type noArtifacts struct{ steps.Artifacts }

// newFileHost returns a fileHost. If dir is a folder of this machine, a sandbox beside its home folder simulates the
// other parts of the machine.
func newFileHost(dir string) *fileHost {
	h := &fileHost{dataDir: dir}
	if !filepath.IsAbs(dir) {
		return h
	}
	s, err := sandbox.Open(context.Background(), sandbox.Config{Path: filepath.Dir(dir) + "-machine", OS: "linux"})
	if err != nil {
		panic(err)
	}
	h.Host = s
	return h
}

// fileHost is a Linux machine that has only files. Making a folder with "slow"
// in its name blocks until the call ends.
type fileHost struct {
	host.Host
	dataDir string
}

func (h *fileHost) Facts(context.Context) (host.Facts, error) {
	f := host.Facts{OS: "linux", Arch: runtime.GOARCH, Hostname: "námé-𝄞", Build: "6.1", DataDir: h.dataDir}
	if strings.HasPrefix(h.dataDir, `C:\`) {
		f.DataDir = "" // its test treats the machine as Windows
	}
	return f, nil
}

func describe(fi fs.FileInfo) host.FileInfo {
	out := host.FileInfo{Name: fi.Name(), Dir: fi.IsDir(), Size: fi.Size(), ModTime: fi.ModTime(),
		Open: fi.Mode().Perm()&0o002 != 0}
	if fi.Mode().Perm()&0o077 == 0 {
		out.Access = host.AccessPrivate
	}
	return out
}

func (h *fileHost) Stat(_ context.Context, path string) (host.FileInfo, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return host.FileInfo{}, err
	}
	return describe(fi), nil
}

func (h *fileHost) Open(_ context.Context, path string) (io.ReadCloser, error) { return os.Open(path) }

func (h *fileHost) List(_ context.Context, path string) (out []host.FileInfo, err error) {
	list, err := os.ReadDir(path)
	for _, e := range list {
		if fi, err := e.Info(); err == nil {
			out = append(out, describe(fi))
		}
	}
	return out, err
}

func (h *fileHost) Adapters(context.Context) ([]host.Adapter, error) { return nil, nil }

func (h *fileHost) Routes(context.Context) ([]host.Route, error) { return nil, nil }

func (h *fileHost) Listeners(context.Context) ([]host.Listener, error) {
	return nil, host.ErrUnsupported
}

func (h *fileHost) FreeBytes(_ context.Context, path string) (uint64, error) { return freeBytes(path) }

// freeBytes is replaced where the system can be asked.
var freeBytes = func(string) (uint64, error) { return 1 << 40, nil }

func (h *fileHost) Mkdir(ctx context.Context, path string, access host.Access) error {
	if strings.Contains(path, "crash") {
		close(crashNow)
		select {}
	}
	if strings.Contains(path, "slow") {
		if err := os.WriteFile(path+".begun", nil, 0o600); err != nil {
			return err
		}
		<-ctx.Done()
		return errors.Join(ctx.Err(), os.WriteFile(path+".given-up", nil, 0o600))
	}
	if err := os.MkdirAll(path, 0o755); err != nil || access != host.AccessPrivate {
		return err
	}
	return os.Chmod(path, 0o700)
}

func (h *fileHost) WriteFile(_ context.Context, path string, r io.Reader, _ host.WriteOptions) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}

func (h *fileHost) Rename(_ context.Context, from, to string) error { return os.Rename(from, to) }

func (h *fileHost) Remove(_ context.Context, path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
