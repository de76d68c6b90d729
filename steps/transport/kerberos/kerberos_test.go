package kerberos_test

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"nodejoin/steps/transport/kerberos"
	"nodejoin/steps/transport/winrmtest"
)

// mit is a server of MIT's GSS-API: it takes a login, opens three messages and seals answers. A connection has the
// bindings of its argument.
const mit = `
import base64, sys, gssapi
say = lambda b: print(base64.b64encode(b).decode(), flush=True)
hear = lambda: base64.b64decode(sys.stdin.readline())
data = sys.argv[1].encode()
context = gssapi.SecurityContext(usage='accept',
    channel_bindings=gssapi.raw.ChannelBindings(application_data=data) if data else None)
say(context.step(hear()) or b'')
say(('%s %d %s' % (context.initiator_name, context.actual_flags & 2048, context.complete)).encode())
for i in range(3):
    m = context.unwrap(hear())
    say(context.wrap(b'%d: ' % i + m.message, m.encrypted).message)
`

// TestMIT: MIT's GSS-API takes the logins with their channel bindings, opens sealed messages and seals others.
func TestMIT(t *testing.T) {
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import gssapi").Run() != nil {
		t.Skip("needs Debian's python3-gssapi")
	}
	kdc := winrmtest.NewKDC(t, "Administrator", "pass-word")
	t.Setenv("KRB5_CONFIG", kdc.Conf)
	c, err := kerberos.New("Administrator", "pass-word", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const here, elsewhere = "tls-server-end-point:x", "tls-server-end-point:y"
	for name, tt := range map[string]struct {
		client, server string // application data of the bindings
		mutual         bool
		want           string
	}{
		"sealed":         {"", "", true, "Administrator@TEST.EXAMPLE 0 True"},
		"bound":          {here, here, false, "Administrator@TEST.EXAMPLE 2048 True"},
		"bound, mutual":  {here, here, true, "Administrator@TEST.EXAMPLE 2048 True"},
		"other bindings": {here, elsewhere, false, "\xa1\x07\x30\x05\xa0\x03\x0a\x01\x02"}, // RFC 4178: reject
	} {
		t.Run(name, func(t *testing.T) {
			l, err := c.Login(bindings(tt.client), tt.mutual)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), python, "-c", mit, tt.server)
			cmd.Env = append(os.Environ(), "KRB5_KTNAME=FILE:"+kdc.Keytab)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			in, errIn := cmd.StdinPipe()
			out, errOut := cmd.StdoutPipe()
			if errIn != nil || errOut != nil {
				t.Fatal(errIn, errOut)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(out)
			ask := func(b []byte) []byte {
				if b != nil {
					fmt.Fprintln(in, base64.StdEncoding.EncodeToString(b))
				}
				line, err := lines.ReadString('\n')
				answer, errText := base64.StdEncoding.DecodeString(strings.TrimSpace(line))
				if err != nil || errText != nil {
					_ = in.Close()
					rest, _ := io.ReadAll(lines)
					t.Fatalf("%v, %v\n%s\n%s", err, cmd.Wait(), rest, stderr.String())
				}
				return answer
			}
			answer := ask(l.Token)
			if strings.HasPrefix(tt.want, "Admin") {
				if have := string(ask(nil)); have != tt.want {
					t.Errorf("have %s, want %s", have, tt.want)
				}
			} else if !strings.Contains(string(answer), tt.want) {
				t.Errorf("have %q, want %s", answer, tt.want)
			}
			if tt.mutual {
				other, err := c.Login(bindings(tt.client), true)
				if err != nil {
					t.Fatal(err)
				}
				if _, err = other.Finish(answer); err == nil || !strings.Contains(err.Error(), "answers another login") {
					t.Errorf("%v, want that the answer is of another login", err)
				}
				s, err := l.Finish(answer)
				if err != nil {
					t.Fatal(err)
				}
				for i := range 3 {
					text := strings.Repeat("m", 1<<(8*i)-1)
					want := fmt.Sprintf("%d: %s", i, text)
					have, err := s.Unpack(around(ask(within(s.Pack([]byte(text)))), len(want)))
					if err != nil || string(have) != want {
						t.Errorf("%v: have %.20q, want %.20q", err, have, want)
					}
				}
			}
			_ = in.Close()
			_ = cmd.Wait() // its output says it
		})
	}
}

const (
	begin = "\tContent-Type: application/octet-stream\r\n"
	end   = "--Encrypted Boundary--\r\n"
)

// within is the token of a packed message.
func within(message []byte) []byte {
	_, token, _ := bytes.Cut(message, []byte(begin))
	return bytes.TrimSuffix(token[4:], []byte(end))
}

// around packs a token for a text of n bytes.
func around(token []byte, n int) []byte {
	return fmt.Appendf(nil, "Length=%d\r\n%s\x10\x00\x00\x00%s%s", n, begin, token, end)
}

// bindings are the MD5 of RFC 4121, 4.1.1.2.
func bindings(data string) []byte {
	if data == "" {
		return nil
	}
	b := binary.LittleEndian.AppendUint32(make([]byte, 16), uint32(len(data)))
	sum := md5.Sum(append(b, data...))
	return sum[:]
}
