package steps_test

import (
	"strings"
	"testing"

	"nodejoin/steps"
)

func TestRedact(t *testing.T) {
	const s = "s3cr3t-V4lue"
	for _, text := range []string{
		`password: ` + s, `"password": "` + s + `"`, `PASSWORD=` + s, `--token=` + s, `db_passphrase = "` + s + `"`,
		`password = "a\"` + s + `"`,
		"    token: " + s + "\n", "client-key-data: " + s, `auth = "` + s + `"`, "Authorization: Bearer " + s,
		"http://me:" + s + "@proxy:3128/x", `url = "https://x.blob.core.windows.net/a.tgz?se=1&sig=` + s + `"`,
		"https://x.s3.amazonaws.com/a?X-Amz-Signature=" + s + "&x=1", "<https://h/a?Signature=" + s + ">",
		"-----BEGIN EC PRIVATE KEY-----\n" + s + "\n-----END EC PRIVATE KEY-----",
		"half of a line " + s + "\n-----END PRIVATE KEY-----\nrest",
		"x\n-----BEGIN RSA PRIVATE KEY-----\n" + s, "the known one, " + s + ", in a sentence",
	} {
		if have := steps.Redact(text, []string{s[:3], "known-by-none"}); strings.Contains(have, s) && !strings.Contains(text,
			"sentence") {
			t.Errorf("%q became %q", text, have)
		}
		if have := steps.Redact(text, []string{s[:6], s}); strings.Contains(have, s) || strings.Contains(have, s[6:]) {
			t.Errorf("known: %q became %q", text, have)
		}
	}
	for _, token := range []string{"abcdef.0123456789abcdef", "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln"} {
		if have := steps.Redact("got "+token+" from", nil); have != "got "+steps.Hidden+" from" {
			t.Errorf("%q", have)
		}
	}
	for _, text := range []string{
		"tokenTTL: 15m\nclusterDomain: cluster.local", "  secret:\n    secretName: x",
		"address: http://10.0.0.1:8080/healthz",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "kubelet.exe --config=C:\\k\\config.yaml",
		"password_env = \"PW\"",
	} {
		if have := steps.Redact(text, nil); have != text {
			t.Errorf("%q became %q", text, have)
		}
	}
}
