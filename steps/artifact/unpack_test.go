package artifact

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps"
)

// entry of an archive that a test makes.
type entry struct {
	name string
	body string
	typ  byte // tar type flag; 0 = regular
	mode int64
}

func tarOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644 | e.mode, Size: int64(len(e.body)), Typeflag: tar.TypeReg,
			Format: tar.FormatPAX}
		if e.typ != 0 {
			h.Typeflag = e.typ
		}
		if e.typ == tar.TypeSymlink || e.typ == tar.TypeLink {
			h.Linkname = "/etc/passwd"
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipOf(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b)
	w.Close()
	return out.Bytes()
}

func zipOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if e.typ == tar.TypeSymlink {
			h.ExternalAttrs, h.CreatorVersion = 0o120777<<16, 3<<8
		} else if e.mode != 0 {
			h.ExternalAttrs, h.CreatorVersion = uint32(0o100644|e.mode)<<16, 3<<8
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpackAll returns "name mode body" of every file.
func unpackAll(s *Store, name, os string, b []byte) ([]string, error) {
	var have []string
	err := s.Unpack(context.Background(), bytes.NewReader(b), name, os, func(m steps.Member, r io.Reader) error {
		body, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		have = append(have, fmt.Sprintf("%s %d %v %s", m.Name, m.Size, m.Executable, body))
		return nil
	})
	return have, err
}

func TestUnpack(t *testing.T) {
	entries := []entry{{name: "./", typ: tar.TypeDir}, {name: "./bin/", typ: tar.TypeDir},
		{name: "./bin/kubelet.exe", body: "one", mode: 0o111}, {name: "LICENSE", body: "two"}}
	want := []string{"bin/kubelet.exe 3 true one", "LICENSE 3 false two"}
	plain := tarOf(t, entries...)
	for name, b := range map[string][]byte{
		"a.tar": plain, "https://example.test/v1/a.tar.gz?x=1": gzipOf(plain), `C:\mirror\a.TGZ`: gzipOf(plain),
		"a.zip": zipOf(t, entries[2:]...),
	} {
		have, err := unpackAll(New(Options{}), name, "windows", b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, have); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestUnpackSeesEveryByteOfTheArchive(t *testing.T) {
	for name, b := range map[string][]byte{
		"a.tar.gz": gzipOf(tarOf(t, entry{name: "a", body: strings.Repeat("x", 1<<16)})),
		"a.zip":    zipOf(t, entry{name: "a", body: strings.Repeat("x", 1<<16)}),
	} {
		h := sha256.New()
		r := io.TeeReader(bytes.NewReader(b), h)
		err := New(Options{}).Unpack(context.Background(), r, name, "linux", func(steps.Member, io.Reader) error {
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			t.Fatal(err)
		}
		if [32]byte(h.Sum(nil)) != sha256.Sum256(b) {
			t.Errorf("%s: the digest does not cover the archive", name)
		}
	}
}

func TestUnpackRefuses(t *testing.T) {
	cases := []struct {
		title, os, want string
		entries         []entry
	}{
		{"parent", "linux", `".."`, []entry{{name: "../x"}}},
		{"parent inside", "linux", `".."`, []entry{{name: "a/../../x"}}},
		{"parent folder", "linux", `".."`, []entry{{name: "../x/", typ: tar.TypeDir}}},
		{"absolute", "linux", "absolute", []entry{{name: "/etc/passwd"}}},
		{"backslash", "windows", "backslash", []entry{{name: `a\..\..\x`}}},
		{"drive", "windows", `':'`, []entry{{name: "C:/x"}}},
		{"stream", "windows", `':'`, []entry{{name: "a.exe:evil"}}},
		{"device", "windows", "device", []entry{{name: "a/nul.txt"}}},
		{"port", "windows", "device", []entry{{name: "Com1"}}},
		{"superscript port", "windows", "device", []entry{{name: "LPT².log"}}},
		{"device with space", "windows", "device", []entry{{name: "CON .x"}}},
		{"short name", "windows", "short name", []entry{{name: "PROGRA~1/x"}}},
		{"short name of a file", "windows", "short name", []entry{{name: "bin/kubel~12.exe"}}},
		{"trailing dot", "windows", "dot or a space", []entry{{name: "a./b"}}},
		{"trailing space", "windows", "dot or a space", []entry{{name: "a.exe "}}},
		{"wildcard", "windows", `'*'`, []entry{{name: "a*"}}},
		{"control", "linux", "control", []entry{{name: "a\x1b[2Jb"}}},
		{"twice", "linux", "twice", []entry{{name: "a"}, {name: "./a"}}},
		{"twice by case", "windows", "twice", []entry{{name: "A/x"}, {name: "a/X"}}},
		{"below a file", "windows", "folder that is a file", []entry{{name: "A"}, {name: "a/x"}}},
		{"symlink", "linux", "link", []entry{{name: "a", typ: tar.TypeSymlink}}},
		{"hard link", "linux", "link", []entry{{name: "a", typ: tar.TypeLink}}},
		{"fifo", "linux", "special", []entry{{name: "a", typ: tar.TypeFifo}}},
		{"device node", "linux", "special", []entry{{name: "a", typ: tar.TypeBlock}}},
		{"nothing", "linux", "no file", nil},
	}
	for _, c := range cases {
		archives := map[string][]byte{"a.tar.gz": gzipOf(tarOf(t, c.entries...))}
		if len(c.entries) > 0 && (c.entries[0].typ == 0 || c.entries[0].typ == tar.TypeSymlink) {
			archives["a.zip"] = zipOf(t, c.entries...)
		}
		for name, b := range archives {
			_, err := unpackAll(New(Options{}), name, c.os, b)
			var se *steps.Error
			if !errors.As(err, &se) || se.Code != steps.CodeInvalid || !strings.Contains(se.Detail, c.want) {
				t.Errorf("%s, %s: have %v, want a refusal with %q", c.title, name, err, c.want)
			}
		}
	}
	if have, err := unpackAll(New(Options{}), "a.tar", "linux",
		tarOf(t, entry{name: "A"}, entry{name: "a"}, entry{name: "con"}, entry{name: "a~1"})); err != nil || len(have) != 4 {
		t.Errorf("names that only Windows takes for the same: %v, %v", have, err)
	}
}

func TestUnpackDamaged(t *testing.T) {
	good := gzipOf(tarOf(t, entry{name: "a", body: strings.Repeat("abc ", 50_000)}))
	zipped := zipOf(t, entry{name: "a", body: strings.Repeat("abc ", 50_000)})
	flipped := bytes.Clone(zipped)
	flipped[60] ^= 0xff
	for _, c := range []struct {
		title, name, want string
		b                 []byte
	}{
		{"truncated tar.gz", "a.tar.gz", "truncated", good[:len(good)/2]},
		{"truncated trailer", "a.tar.gz", "truncated", good[:len(good)-4]},
		{"truncated zip", "a.zip", "not a zip archive, or truncated", zipped[:len(zipped)/2]},
		{"damaged zip", "a.zip", "", flipped},
		{"a web page", "a.tar.gz", "not a gzip file", []byte("<html>not found</html>")},
		{"a web page", "a.zip", "not a zip archive", []byte("<html>not found</html>")},
		{"a web page", "a.tar", "not a tar archive", bytes.Repeat([]byte("<html>not found</html>"), 100)},
		{"empty", "a.tar.gz", "", nil},
		{"unknown type", "a.7z", "not named", []byte("7z\xbc\xaf\x27\x1c and more")},
	} {
		_, err := unpackAll(New(Options{}), c.name, "linux", c.b)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s (%s): have %v, want %q", c.title, c.name, err, c.want)
		}
	}
}

func TestUnpackBounds(t *testing.T) {
	small := New(Options{})
	small.limits = limits{members: 3, unpacked: 1 << 20, spooled: 1 << 12}
	zeros := strings.Repeat("\x00", 2<<20)
	many := []entry{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}}
	for _, c := range []struct {
		title, name, want string
		b                 []byte
	}{
		{"gzip bomb", "a.tar.gz", "unpacks to more", gzipOf(tarOf(t, entry{name: "a", body: zeros}))},
		{"zip bomb", "a.zip", "unpacks to more", zipOf(t, entry{name: "a", body: zeros})},
		{"zip bomb in parts", "a.zip", "unpacks to more",
			zipOf(t, entry{name: "a", body: zeros[:1<<19+1]}, entry{name: "b", body: zeros[:1<<19]})},
		{"bomb in parts", "a.tar.gz", "unpacks to more",
			gzipOf(tarOf(t, entry{name: "a", body: zeros[:1<<19]}, entry{name: "b", body: zeros[:1<<19]}))},
		{"bomb after the end", "a.tar.gz", "unpacks to more", gzipOf(append(tarOf(t, entry{name: "a"}), zeros...))},
		{"many", "a.tar.gz", "more than 3 files", gzipOf(tarOf(t, many...))},
		{"many", "a.zip", "more than 3 files", zipOf(t, many...)},
		{"large zip", "a.zip", "larger than", bytes.Repeat([]byte("x"), 5000)},
	} {
		_, err := unpackAll(small, c.name, "linux", c.b)
		var se *steps.Error
		if !errors.As(err, &se) || !strings.Contains(se.Detail, c.want) {
			t.Errorf("%s: have %v, want %q", c.title, err, c.want)
		}
	}
}

// A zip may declare less than it holds.
func TestUnpackLyingZip(t *testing.T) {
	b := zipOf(t, entry{name: "a", body: strings.Repeat("\x00", 1<<20)})
	// The size before compression stands in the central directory, 24 bytes after its signature.
	i := bytes.Index(b, []byte("PK\x01\x02"))
	copy(b[i+24:], []byte{1, 0, 0, 0})
	if have, err := unpackAll(New(Options{}), "a.zip", "linux", b); err == nil {
		t.Errorf("taken: %d files", len(have))
	}
}

func TestSpoolIsRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	stale := filepath.Join(dir, "nodejoin-spool-1.zip")
	old := time.Now().Add(-2 * spoolAge)
	if err := errors.Join(os.WriteFile(stale, nil, 0o600), os.Chtimes(stale, old, old)); err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{zipOf(t, entry{name: "a"}), zipOf(t, entry{name: "../a"}), []byte("none")} {
		_, _ = unpackAll(New(Options{}), "a.zip", "linux", b) // two of the three are refused
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestUnpackGivesTheCallersError(t *testing.T) {
	mine := errors.New("mine")
	err := New(Options{}).Unpack(context.Background(), bytes.NewReader(tarOf(t, entry{name: "a"})), "a.tar", "linux",
		func(steps.Member, io.Reader) error { return mine })
	if !errors.Is(err, mine) {
		t.Errorf("have %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(mine)
	err = New(Options{}).Unpack(ctx, bytes.NewReader(tarOf(t, entry{name: "a"})), "a.tar", "linux",
		func(steps.Member, io.Reader) error { return nil })
	if !errors.Is(err, mine) && !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: have %v", err)
	}
}

func FuzzCleanName(f *testing.F) {
	for _, s := range []string{"a/b", "./a", "../a", `C:\a`, "nul", "a//b/", "COM¹.x", "a ", "é"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, name string, windows bool) {
		clean, problem := cleanName(name, windows)
		if problem != "" {
			return
		}
		if clean == "" || strings.HasPrefix(clean, "/") || strings.ContainsAny(clean, "\\\x00") ||
			strings.Contains("/"+clean+"/", "/../") || strings.Contains("/"+clean, "//") {
			t.Errorf("%q is taken as %q", name, clean)
		}
		if windows && strings.ContainsAny(clean, `:*?"<>|`) {
			t.Errorf("%q is taken as %q", name, clean)
		}
		if again, problem := cleanName(clean, windows); again != clean || problem != "" {
			t.Errorf("%q is not clean: %q, %s", clean, again, problem)
		}
	})
}

// TestUnpackByContent: an archive whose name does not say what it is, as the tag of a registry, is known by its first
// bytes; anything else is refused.
func TestUnpackByContent(t *testing.T) {
	e := entry{name: "bin/tool", body: "a tool"}
	for name, b := range map[string][]byte{"tar": tarOf(t, e), "gzip": gzipOf(tarOf(t, e)), "zip": zipOf(t, e)} {
		have := ""
		err := New(Options{}).Unpack(t.Context(), bytes.NewReader(b), "oci://registry.example/files/tool:1.0", "linux",
			func(m steps.Member, r io.Reader) error {
				text, err := io.ReadAll(r)
				have = m.Name + " " + string(text)
				return err
			})
		if err != nil || have != "bin/tool a tool" {
			t.Errorf("%s: %q, %v", name, have, err)
		}
	}
	for _, text := range []string{"", "MZ", strings.Repeat("x", 1000)} {
		err := New(Options{}).Unpack(t.Context(), strings.NewReader(text), "tool:1.0", "linux", nil)
		if err == nil || !strings.Contains(err.Error(), "tool:1.0 is not named .tar") {
			t.Errorf("%.10q: %v", text, err)
		}
	}
}
