package generalize

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf16"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/hostlock"
	"nodejoin/steps/record"
)

// pattern is text that must not be in an image.
type pattern struct {
	text  []byte
	what  string
	whole bool // as a word: win-1 is not in win-10
	width int  // of a character: 2 in UTF-16
}

// search looks for patterns in the files that were written.
type search struct {
	r    host.Reader
	e    *steps.Env
	req  Request
	find []pattern
	skip []Found // not searched, as it goes

	out   []Found         // of run, so far
	seen  map[string]bool // keys of paths
	files int
}

// shortest is the length of the shortest secret that is searched for, in bytes: shorter ones are in any program.
const shortest = 6

// patterns collects what is searched for.
func (s *search) patterns(ctx context.Context) error {
	add := func(text, what string, whole bool) {
		if text == "" {
			return
		}
		s.find = append(s.find, pattern{[]byte(text), what, whole, 1})
		if s.e.Facts.OS == "windows" { // whose programs also write UTF-16
			s.find = append(s.find, pattern{wide(text), what, whole, 2})
		}
	}
	add(s.req.Node, name, true)
	f := s.e.Facts
	for _, a := range slices.Concat(s.req.Addresses, []string{f.ManagementIP}, f.IPv6) {
		add(a, address, true)
	}
	for _, text := range s.req.Secrets {
		if len(text) >= shortest {
			add(text, secret, false)
		}
	}
	for _, end := range []string{"\n", "\r\n", `\n`} { // also in JSON; programs have the words without an end
		add("PRIVATE KEY-----"+end, privateKey, false)
	}
	for _, end := range []string{"\n", "\r\n"} { // not in JSON: the record has the authorities of trusted_ca
		add("-----BEGIN CERTIFICATE-----"+end, certificate, false)
	}
	// Kubeconfigs have keys and certificates in Base64, and JSON Web Tokens begin so. As they are written here the agent,
	// which lies in nodejoin's folder, does not have them.
	add(base64.StdEncoding.EncodeToString([]byte("-----BEGIN  "))[:14], encoded, false)
	add(base64.StdEncoding.EncodeToString([]byte(`{"alg":"`))[:10], token, false)
	id, err := s.id(ctx)
	add(id, theID, false)
	return err
}

// wide is a text in UTF-16.
func wide(text string) (out []byte) {
	for _, u := range utf16.Encode([]rune(text)) {
		out = binary.LittleEndian.AppendUint16(out, u)
	}
	return out
}

// id is what programs tell this machine from others by; "" if it has none.
func (s *search) id(ctx context.Context) (string, error) {
	if s.e.Facts.OS == "windows" {
		v, _, err := host.LookupRegistry(ctx, s.r, cryptography, machineGUID)
		return v.String, err
	}
	f, err := host.ReadFile(ctx, s.r, machineID, host.MaxText)
	if f == nil || err != nil {
		return "", err
	}
	return strings.TrimSpace(string(f.Content)), nil
}

// list returns the entries of a folder; none if there is no folder.
func (s *search) list(ctx context.Context, dir string) ([]host.FileInfo, error) {
	list, err := s.r.List(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}

// settings are files in which a machine has its name and its addresses, and its logs.
var settings = map[string][]string{
	"windows": {`C:\Windows\System32\drivers\etc\hosts`},
	"linux": {"/etc/hosts", "/etc/hostname", "/etc/netplan", "/etc/network", "/etc/systemd/network",
		"/etc/NetworkManager/system-connections", "/etc/sysconfig/network-scripts", "/var/log"},
}

// paths are the claims that are paths of files and folders.
var paths = []record.Prefix{record.File, record.Directory, record.Backup, record.EnvFile}

// run searches what nodejoin wrote, and the settings of the machine.
func (s *search) run(ctx context.Context) ([]Found, error) {
	s.files, s.out, s.seen = 0, []Found{}, s.public()
	roots := append([]string{s.e.Facts.DataDir}, settings[s.e.Facts.OS]...)
	for _, key := range s.e.Record.Active() {
		if slices.Contains(paths, key.Prefix) {
			roots = append(roots, key.Name)
		} else if err := s.setting(ctx, key); err != nil {
			return nil, err
		}
	}
	for _, path := range roots {
		if err := s.walk(ctx, path); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(s.out, func(a, b Found) int { return strings.Compare(a.Path, b.Path) })
	return s.out, nil
}

// setting searches what nodejoin wrote into no file of its own.
func (s *search) setting(ctx context.Context, key record.Key) error {
	texts, err := written(ctx, s.r, s.e, key)
	for _, text := range texts {
		for _, p := range s.find {
			f := Found{key.String(), p.what}
			if p.in([]byte(text), true, true) && !slices.Contains(s.out, f) {
				s.out = append(s.out, f)
			}
		}
	}
	return err
}

// public are the paths, by their keys, that are not searched.
func (s *search) public() map[string]bool {
	os, out := s.e.Facts.OS, map[string]bool{}
	// Whose the lock of this run is; the file ends with it.
	out[host.PathKey(os, host.Join(os, s.e.Facts.DataDir, hostlock.HolderFile))] = true
	for _, path := range s.req.Artifacts {
		out[host.PathKey(os, path)] = true
	}
	for _, a := range s.e.Record.Archives {
		for path := range a.Files {
			out[host.PathKey(os, path)] = true
		}
	}
	for _, f := range s.skip {
		out[host.PathKey(os, f.Path)] = true
	}
	return out
}

// walk searches what is at path, and below it. Links are not followed.
func (s *search) walk(ctx context.Context, path string) error {
	os := s.e.Facts.OS
	key := host.PathKey(os, path)
	if s.seen[key] {
		return nil
	}
	s.seen[key] = true
	fi, err := s.r.Stat(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !fi.Dir && fi.Size == 0:
		return nil // sockets, too, which cannot be opened
	case !fi.Dir:
		found, err := s.file(ctx, path)
		s.out = append(s.out, found...)
		return err
	}
	list, err := s.list(ctx, path)
	for _, in := range list {
		if err == nil && !in.Elsewhere {
			err = s.walk(ctx, host.Join(os, path, in.Name))
		}
	}
	return err
}

// chunk is how much of a file is read at once, in bytes.
const chunk = 1 << 20

// file searches one file, in parts that lap over each other by the longest pattern.
func (s *search) file(ctx context.Context, path string) ([]Found, error) {
	in, err := s.r.Open(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it has gone since
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // it was only read
	s.files++
	lap := 0
	for _, p := range s.find {
		lap = max(lap, len(p.text)+2*p.width) // with what is around it
	}
	var out []Found
	buf := make([]byte, 0, chunk+lap)
	for first := true; ; first = false {
		n, err := io.ReadFull(in, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return nil, fmt.Errorf("search %s: %w", path, err)
		}
		for _, p := range s.find {
			f := Found{path, p.what}
			if !slices.Contains(out, f) && p.in(buf, first, end) {
				out = append(out, f)
			}
		}
		if end {
			return out, nil
		}
		buf = buf[:copy(buf[:cap(buf)], buf[len(buf)-lap:])]
	}
}

// in reports whether the pattern is in a part of a file, which may be the first and the last one. What is at the edge
// of a part is inside another.
func (p pattern) in(part []byte, first, last bool) bool {
	for from := 0; ; {
		i := bytes.Index(part[from:], p.text)
		if i < 0 {
			return false
		}
		begin, end := from+i, from+i+len(p.text)
		before := begin < p.width && first || begin >= p.width && !p.inWord(part[begin-p.width:])
		after := end+p.width > len(part) && last || end+p.width <= len(part) && !p.inWord(part[end:])
		if !p.whole || before && after {
			return true
		}
		from = begin + 1
	}
}

// inWord reports whether a text begins with a character of words.
func (p pattern) inWord(text []byte) bool {
	c := text[0]
	return (p.width == 1 || text[1] == 0) &&
		(c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
}
