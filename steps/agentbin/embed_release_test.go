//go:build embedagent

package agentbin

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"io"
	"os"
	"strings"
	"testing"
)

// wireLimit bounds what an agent takes on the wire, in bytes.
const wireLimit = 4_500_000

// TestRelease: a release carries an agent for each target, built for it, and hands out
// just that.
func TestRelease(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, target := range Targets {
		goos, arch, _ := strings.Cut(target, "/")
		packed, err := embedded(goos, arch)
		if err != nil {
			t.Errorf("%v; run go generate ./steps/agentbin", err)
			continue
		}
		if n := len(packed.Data); n > wireLimit {
			t.Errorf("%s: %d bytes are sent to a machine, the limit is %d", target, n, wireLimit)
		}
		var carried []byte
		err = packed.unpack(func(agent io.Reader) (err error) {
			carried, err = io.ReadAll(agent)
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		info, err := buildinfo.Read(bytes.NewReader(carried))
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		have := map[string]string{}
		for _, s := range info.Settings {
			have[s.Key] = s.Value
		}
		if have["GOOS"] != goos || have["GOARCH"] != arch || info.Path != "nodejoin/cmd/nodejoin-agent" ||
			have["-tags"] != "" {
			t.Errorf("%s: carries %s, %v", target, info.Path, have)
		}
		path, digest, err := Get(t.Context(), goos, arch)
		if err != nil {
			t.Error(err)
			continue
		}
		if err := Unpack(path, digest); err != nil {
			t.Error(err)
		}
		given, err := os.ReadFile(path)
		sum := sha256.Sum256(given)
		if err != nil || !bytes.Equal(given, carried) || hex.EncodeToString(sum[:]) != digest {
			t.Errorf("%s: %s with digest %s is not what is carried (%v)", target, path, digest, err)
		}
		if beside, err := os.ReadFile(path + packed.Form); err != nil || !bytes.Equal(beside, packed.Data) {
			t.Errorf("%s: the packed agent beside %s is another (%v)", target, path, err)
		}
	}
}
