package main

import (
	"crypto/x509"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"nodejoin/plan/signature/signaturetest"
)

// cmdCosign stands in for cosign with a key: 'cosign key KEY PUBLIC' makes one, and 'cosign sign KEY TEXT RELEASE'
// writes the release of a text, the bundle first.
func cmdCosign(ts *testscript.TestScript, _ bool, args []string) {
	switch {
	case len(args) == 3 && args[0] == "key":
		key := signaturetest.Key()
		der, err := x509.MarshalECPrivateKey(key)
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), der, 0o600))
		ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(signaturetest.PublicKey(key)), 0o600))
	case len(args) == 4 && args[0] == "sign":
		key, err := x509.ParseECPrivateKey([]byte(ts.ReadFile(args[1])))
		ts.Check(err)
		text := []byte(ts.ReadFile(args[2]))
		ts.Check(os.WriteFile(ts.MkAbs(args[3]), append(signaturetest.SignByKey(text, key), text...), 0o600))
	default:
		ts.Fatalf("usage: cosign key KEY PUBLIC, or cosign sign KEY TEXT RELEASE")
	}
}
