package winrmtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// KDC is a Kerberos realm, TEST.EXAMPLE, of Debian's krb5-kdc.
type KDC struct {
	Conf   string // its krb5.conf, for KRB5_CONFIG
	Keytab string // keys of HTTP/localhost
	env    []string
	dir    string
}

// NewKDC starts a KDC that ends with the test, with a user of this password. It skips the test where there is no KDC.
func NewKDC(t *testing.T, user, password string) *KDC {
	t.Helper()
	const kdc = "/usr/sbin/krb5kdc"
	if _, err := os.Stat(kdc); err != nil {
		t.Skip("needs Debian's krb5-kdc")
	}
	dir := t.TempDir()
	addr, free := reserve(t)
	k := &KDC{Conf: filepath.Join(dir, "krb5.conf"), Keytab: filepath.Join(dir, "keytab"), dir: dir}
	k.env = append(os.Environ(), "KRB5_CONFIG="+k.Conf, "KRB5_KDC_PROFILE="+filepath.Join(dir, "kdc.conf"))
	for file, text := range map[string]string{
		k.Conf: fmt.Sprintf("[libdefaults]\n default_realm = TEST.EXAMPLE\n dns_lookup_kdc = false\n rdns = false\n"+
			" udp_preference_limit = 1\n"+
			" dns_canonicalize_hostname = false\n[realms]\n TEST.EXAMPLE = {\n  kdc = %s\n }\n"+
			"[domain_realm]\n localhost = TEST.EXAMPLE\n", addr),
		filepath.Join(dir, "kdc.conf"): fmt.Sprintf("[kdcdefaults]\n kdc_listen = %[1]s\n kdc_tcp_listen = %[1]s\n"+
			"[realms]\n TEST.EXAMPLE = {\n  database_name = %[2]s/principal\n  key_stash_file = %[2]s/stash\n"+
			"  acl_file = %[2]s/acl\n }\n[logging]\n kdc = FILE:%[2]s/kdc.log\n", addr, dir),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.run(t, "/usr/sbin/kdb5_util", "create", "-s", "-r", "TEST.EXAMPLE", "-P", "master")
	for _, query := range []string{"addprinc -requires_preauth -pw " + password + " " + user,
		"addprinc -randkey HTTP/localhost", "addprinc -randkey HTTP/other", "ktadd -k " + k.Keytab + " HTTP/localhost"} {
		k.run(t, "/usr/sbin/kadmin.local", "-r", "TEST.EXAMPLE", "-q", query)
	}
	cmd := exec.CommandContext(t.Context(), kdc, "-n")
	cmd.Env, cmd.WaitDelay = k.env, 5*time.Second
	free()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has ended
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
			return k
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(dir, "kdc.log"))
			t.Fatalf("the KDC does not listen: %v\n%s", err, log)
		}
	}
}

// reserve keeps an address of loopback, over TCP and UDP, from other programs until free is called.
func reserve(t *testing.T) (addr string, free func()) {
	t.Helper()
	var errs []error
	for range 10 { // the UDP port of that number may be taken
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		u, err := net.ListenPacket("udp", l.Addr().String())
		if err != nil {
			errs = append(errs, err, l.Close())
			continue
		}
		return l.Addr().String(), func() {
			if err := errors.Join(l.Close(), u.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Fatal(errors.Join(errs...))
	return "", nil
}

// Kinit gets tickets of a user and returns their file.
func (k *KDC) Kinit(t *testing.T, user, password string) string {
	t.Helper()
	file := filepath.Join(k.dir, "tickets-"+user)
	for end := time.Now().Add(time.Minute); ; {
		cmd := exec.CommandContext(t.Context(), "kinit", "-c", file, user)
		cmd.Env, cmd.Stdin = k.env, strings.NewReader(password+"\n")
		out, err := cmd.CombinedOutput()
		switch {
		case err == nil:
			return file
		case !strings.Contains(string(out), "Cannot contact any KDC") || time.Now().After(end): // else it is slow
			t.Fatalf("kinit: %v\n%s", err, out)
		}
	}
}

func (k *KDC) run(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = k.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}
