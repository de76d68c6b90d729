package winrmtest_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"nodejoin/steps/transport/winrmtest"
)

// pywinrm makes a folder, lists it and runs an unknown command, then tries a wrong password. It is another project's
// client, so the server of our tests does not only agree with our client.
const pywinrm = `
import sys, winrm
from winrm.exceptions import InvalidCredentialsError
url = 'https://' + sys.argv[1] + '/wsman'
def session(password):
    return winrm.Session(url, auth=('Administrator', password), transport='ntlm')
s = session(sys.argv[2])
print(s.run_cmd('mkdir', ['a']).status_code)
print(s.run_cmd('mkdir', ['a\\b']).status_code)
print(s.run_cmd('dir', ['/b', 'a']).std_out.decode().strip())
bad = s.run_cmd('format', ['c:'])
print(bad.status_code, 'not recognized' in bad.std_err.decode())
try:
    session('wrong').run_cmd('dir', ['/b', 'a'])
    print('the wrong password is accepted')
except InvalidCredentialsError:
    print('refused')
`

// TestPywinrmSealed: over HTTP, pywinrm encrypts each message by NTLM and opens the answers. A message that is not
// encrypted is refused.
func TestPywinrmSealed(t *testing.T) {
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import winrm").Run() != nil {
		t.Skip("needs Debian's python3-winrm")
	}
	home := t.TempDir()
	s := winrmtest.NewHTTP(t, "Administrator", "pass-wörd", winrmtest.Cmd(home, home))
	script := strings.NewReplacer("https://", "http://", "transport='ntlm'",
		"transport='ntlm', message_encryption=sys.argv[3]").Replace(pywinrm)
	// It loads what OpenSSL calls legacy, of which NTLM needs MD4. With HTTPS, another part of pywinrm does so.
	script = "from cryptography.hazmat.backends import default_backend; default_backend()\n" + script
	for how, want := range map[string]string{"always": "0\n0\nb\n1 True\nrefused\n", "never": "Code 500"} {
		cmd := exec.CommandContext(t.Context(), python, "-W", "ignore", "-c", script, s.Addr, "pass-wörd", how)
		out, err := cmd.CombinedOutput()
		if have := strings.ReplaceAll(string(out), "\r", ""); how == "always" && (err != nil || have != want) ||
			!strings.Contains(have, want) {
			t.Errorf("%s: %v\nhave:\n%s\nwant:\n%s", how, err, out, want)
		}
	}
	if n := s.Shells(); n != 0 {
		t.Errorf("%d shells are left", n)
	}
}

// sealing has Debian's pykerberos seal messages for pywinrm: it has the calls of MIT's GSS-API by other names.
const sealing = `
import base64, kerberos, struct
def seal(context, text):
    kerberos.authGSSClientWrapIov(context, base64.b64encode(text).decode(), 1)
    token = base64.b64decode(kerberos.authGSSClientResponse(context))
    at = 4 + struct.unpack('<i', token[:4])[0]
    return token[at:], token[4:at]
def unseal(context, covered, signature):
    token = struct.pack('<i', len(signature)) + signature + covered
    kerberos.authGSSClientUnwrapIov(context, base64.b64encode(token).decode())
    return base64.b64decode(kerberos.authGSSClientResponse(context))
kerberos.authGSSWinRMEncryptMessage, kerberos.authGSSWinRMDecryptMessage = seal, unseal
`

// TestPywinrmKerberos: pywinrm, with MIT's Kerberos, logs in and encrypts each message over HTTP, and opens the
// answers.
func TestPywinrmKerberos(t *testing.T) {
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import winrm, kerberos").Run() != nil {
		t.Skip("needs Debian's python3-winrm")
	}
	kdc := winrmtest.NewKDC(t, "Administrator", "pass-word")
	home := t.TempDir()
	s := winrmtest.NewHTTP(t, "Administrator", "pass-word", winrmtest.Cmd(home, home))
	s.Keytab = kdc.Keytab
	_, port, _ := strings.Cut(s.Addr, ":")
	script, _, _ := strings.Cut(pywinrm, "try:")
	script = strings.NewReplacer("https://", "http://", "transport='ntlm'",
		"transport='kerberos', message_encryption=sys.argv[3]").Replace(script)
	cmd := exec.CommandContext(t.Context(), python, "-W", "ignore", "-c", sealing+script, "localhost:"+port, "",
		"always")
	cmd.Env = append(os.Environ(), "KRB5_CONFIG="+kdc.Conf,
		"KRB5CCNAME=FILE:"+kdc.Kinit(t, "Administrator", "pass-word"))
	out, err := cmd.CombinedOutput()
	if want := "0\n0\nb\n1 True\n"; err != nil || strings.ReplaceAll(string(out), "\r", "") != want {
		t.Errorf("%v\nhave:\n%s\nwant:\n%s", err, out, want)
	}
	if n := s.Shells(); n != 0 {
		t.Errorf("%d shells are left", n)
	}
}

// TestMasterzen: masterzen/winrm, a Go client in a module of its own, finds the same as pywinrm, and sends input. It
// fetches modules, so it runs only where NODEJOIN_TEST_RELEASE is set.
func TestMasterzen(t *testing.T) {
	if os.Getenv("NODEJOIN_TEST_RELEASE") == "" {
		t.Skip("fetches modules; set NODEJOIN_TEST_RELEASE")
	}
	home := t.TempDir()
	s := winrmtest.New(t, "Administrator", "pass-wörd", winrmtest.Cmd(home, home))
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, s.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "masterzen")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = filepath.Join("testdata", "masterzen")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file := filepath.Join(t.TempDir(), "sent")
	if err := os.WriteFile(file, bytes.Repeat([]byte("0123456789"), 50000), 0o600); err != nil {
		t.Fatal(err)
	}
	archive := exec.CommandContext(t.Context(), "tar", "-cz", "-C", filepath.Dir(file), "sent")
	sent, err := archive.Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, s.Addr, "pass-wörd", ca)
	cmd.Stdin = bytes.NewReader(sent)
	out, err := cmd.CombinedOutput()
	if want := "0  false\n0 b false\n1  true\n0 \ntrue\n"; err != nil || string(out) != want {
		t.Fatalf("%v\nhave:\n%s\nwant:\n%s", err, out, want)
	}
	if have, err := os.Stat(filepath.Join(home, "a", "sent")); err != nil || have.Size() != 500000 {
		t.Errorf("the input did not arrive: %v", err)
	}
	if n := s.Shells(); n != 0 {
		t.Errorf("%d shells are left", n)
	}
}

// TestCurl: curl, which logs in with MIT's Kerberos and the tickets of kinit, opens a shell. So the server does not
// only take what our client sends.
func TestCurl(t *testing.T) {
	kdc := winrmtest.NewKDC(t, "Administrator", "pass-word")
	home := t.TempDir()
	s := winrmtest.New(t, "Administrator", "pass-word", winrmtest.Cmd(home, home))
	s.Keytab = kdc.Keytab
	_, port, _ := strings.Cut(s.Addr, ":")
	const create = `<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Header><To>x</To>` +
		`<Action>http://schemas.xmlsoap.org/ws/2004/09/transfer/Create</Action><MessageID>uuid:1</MessageID>` +
		`<ResourceURI>http://schemas.microsoft.com/wbem/wsman/1/windows/shell/cmd</ResourceURI></s:Header><s:Body>` +
		`<Shell><InputStreams>stdin</InputStreams><OutputStreams>stdout stderr</OutputStreams></Shell></s:Body></s:Envelope>`
	valid := kdc.Kinit(t, "Administrator", "pass-word")
	for tickets, want := range map[string]string{valid: "<rsp:ShellId>", "none": "401"} {
		cmd := exec.CommandContext(t.Context(), "curl", "-sk", "--negotiate", "-u", ":", "-w", "%{http_code}",
			"-H", "Content-Type: application/soap+xml", "-d", create, "https://localhost:"+port+"/wsman")
		cmd.Env = append(os.Environ(), "KRB5_CONFIG="+kdc.Conf, "KRB5CCNAME=FILE:"+tickets)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v, want %s\n%s", err, want, out)
		}
	}
	if n := s.Shells(); n != 1 {
		t.Errorf("%d shells are open, want 1", n)
	}
}

func TestPywinrm(t *testing.T) {
	const python = "/usr/bin/python3"
	if exec.Command(python, "-c", "import winrm").Run() != nil {
		t.Skip("needs Debian's python3-winrm")
	}
	home := t.TempDir()
	s := winrmtest.New(t, "Administrator", "pass-wörd", winrmtest.Cmd(home, home))
	s.Strict = true // it sends both
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, s.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-W", "ignore", "-c", pywinrm, s.Addr, "pass-wörd")
	cmd.Env = append(os.Environ(), "REQUESTS_CA_BUNDLE="+ca)
	out, err := cmd.CombinedOutput()
	if want := "0\n0\nb\n1 True\nrefused\n"; err != nil || strings.ReplaceAll(string(out), "\r", "") != want {
		t.Fatalf("%v\nhave:\n%s\nwant:\n%s", err, out, want)
	}
	if n := s.Shells(); n != 0 {
		t.Errorf("%d shells are left", n)
	}
}
