package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The digest of the agent is computed once as long as nobody has touched its program; a program that is cut off, was
// changed or is another one has its own digest at once.
func TestDigestNoted(t *testing.T) {
	const content = "the agent, whole"
	program := filepath.Join(t.TempDir(), "nodejoin-agent-0123")
	note := program + digestSuffix
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	of := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	have := func(what, want string) {
		t.Helper()
		if _, changed := programState(program); !changed.IsZero() {
			time.Sleep(time.Until(changed.Add(2 * tick))) // what was changed just now is not noted
		}
		if have, err := Digest(program, 0, Sent{}); err != nil || have != want {
			t.Errorf("%s: %s, %v, want %s", what, have, err, want)
		}
	}
	read := func() string {
		t.Helper()
		b, err := os.ReadFile(note)
		must(err)
		return string(b)
	}

	write(program, content)
	if digest, err := Digest(program, 0, Sent{}); err != nil || digest != of(content) {
		t.Errorf("just written: %s, %v", digest, err)
	}
	if _, err := os.Lstat(note); err == nil && time.Since(written(t, program)) < tick {
		t.Error("the digest of a program that was just written is noted")
	}
	have("the first start", of(content))
	// The noted digest is believed, which shows that the program is not read again.
	other := of("noted")
	believed := strings.Replace(read(), of(content), other, 1)
	must(os.WriteFile(note, []byte(believed), 0o600))
	have("a start later", other)
	if list, err := filepath.Glob(program + "*"); err != nil || len(list) != 2 {
		t.Errorf("files: %v, %v", list, err)
	}

	for what, change := range map[string]func(){
		"cut off":              func() { must(os.Truncate(program, 3)) },
		"nothing":              func() { must(os.Truncate(program, 0)) },
		"another of that size": func() { write(program, strings.ToUpper(content)) },
		"another, put in its place": func() {
			write(program+".x", content+"!")
			must(os.Rename(program+".x", program))
		},
		"zeros in the middle": func() {
			info, err := os.Stat(program)
			must(err)
			f, err := os.OpenFile(program, os.O_WRONLY, 0)
			must(err)
			_, err = f.WriteAt(make([]byte, 4), 3)
			must(err)
			must(f.Close())
			must(os.Chtimes(program, info.ModTime(), info.ModTime())) // as if nobody had written
		},
	} {
		write(program, content)
		must(os.RemoveAll(note))
		have(what+", before", of(content))
		change()
		b, err := os.ReadFile(program)
		must(err)
		if string(b) == content {
			t.Fatalf("%s: the program is as it was", what)
		}
		have(what, of(string(b)))
		have(what+", later", of(string(b)))
	}

	// Notes that do not count.
	write(program, content)
	must(os.RemoveAll(note))
	have("before the notes", of(content))
	good := read()
	lie := strings.Replace(good, of(content), other, 1)
	for what, put := range map[string]func(){
		"of another boot": func() { write(note, "0"+lie[1:]) },
		"not whole":       func() { write(note, lie[:len(lie)-2]) },
		"empty":           func() { write(note, "") },
		"too long":        func() { write(note, lie+lie) },
		"no digest":       func() { write(note, strings.Replace(good, of(content), strings.Repeat("x", 64), 1)) },
		"others may write": func() {
			write(note, lie)
			must(os.Chmod(note, 0o666))
		},
		"a link": func() { write(note+".x", lie); must(os.Symlink(note+".x", note)) },
		"a fifo": func() { must(unix.Mkfifo(note, 0o600)) },
		"a folder": func() {
			must(os.Mkdir(note, 0o700))
		},
	} {
		must(os.RemoveAll(note))
		put()
		have("a note: "+what, of(content))
	}
	must(os.RemoveAll(note))

	// Root notes nothing beside the program of another user, and believes no note there.
	if have, err := Digest(program, 1000, Sent{}); err != nil || have != of(content) {
		t.Errorf("another owner: %s, %v", have, err)
	}
	if _, err := os.Lstat(note); err == nil {
		t.Error("a note beside the program of another owner")
	}
	write(note, lie)
	must(os.Chmod(note, 0o600))
	if have, err := Digest(program, 1000, Sent{}); err != nil || have != of(content) {
		t.Errorf("another owner, with a note: %s, %v", have, err)
	}
}

// written is when a program was changed last.
func written(t *testing.T, program string) time.Time {
	t.Helper()
	_, changed := programState(program)
	return changed
}

// A folder without room, or that may not be written to, is no reason not to start.
func TestDigestWithoutNote(t *testing.T) {
	program := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(program, []byte("x"), 0o700); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("x"))
	if err := os.MkdirAll(filepath.Join(program+digestSuffix, "full"), 0o700); err != nil { // nothing takes its place
		t.Fatal(err)
	}
	if have, err := Digest(program, 0, Sent{}); err != nil || have != hex.EncodeToString(sum[:]) {
		t.Errorf("%s, %v", have, err)
	}
	if list, err := filepath.Glob(program + digestSuffix + ".*"); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	if _, err := Digest(program+".absent", 0, Sent{}); err == nil {
		t.Error("no program has a digest")
	}
}

// TestSent: the packed agent is read in place of the agent if it is what was sent, and is gone then and else.
func TestSent(t *testing.T) {
	dir := t.TempDir()
	program, packed := filepath.Join(dir, "agent"), filepath.Join(dir, "packed")
	of := func(content string) string {
		sum := sha256.Sum256([]byte(content))
		return hex.EncodeToString(sum[:])
	}
	if err := os.WriteFile(program, []byte("agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, packed, want string }{
		{"as sent", "packed", of("what the controller says")},
		{"another one", "other", of("agent")},
		{"cut", "pack", of("agent")},
		{"absent", "", of("agent")},
	} {
		if c.packed != "" {
			if err := os.WriteFile(packed, []byte(c.packed), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		have, err := Digest(program, 0, Sent{Digest: of("what the controller says"), Packed: packed, Sum: of("packed")})
		if err != nil || have != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, have, err, c.want)
		}
		if _, err := os.Lstat(packed); err == nil {
			t.Errorf("%s: the packed file is still there", c.name)
		}
	}
}
