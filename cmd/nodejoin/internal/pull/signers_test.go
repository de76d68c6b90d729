package pull

import (
	"strings"
	"testing"

	"nodejoin/plan/names"
)

// TestSignersOfPlan: a plan takes the keys that a node takes, and refuses those that it refuses.
func TestSignersOfPlan(t *testing.T) {
	_, signer := keyFile(t)
	key := strings.TrimSpace(line("", signer))
	const hardware = "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIJ0bYFpcBKSuNQ9iWDUVR3sO" +
		"eQOM6Q0EZ6TT4kXAL6rCAAAABHNzaDo="
	for text, good := range map[string]bool{
		"a " + key:                                 true,
		"a " + key + " a comment":                  true,
		"a " + hardware:                            true,
		"# c\n\n a " + key + " \r":                 true,
		"a,b@c " + key:                             true,
		"a\t" + key:                                true,
		`a namespaces="*,!git" ` + key:             true,
		`a NAMESPACES="release@*" ` + key:          true,
		`a valid-after="20200101" ` + key:          true,
		`a valid-before="20200101120000Z" ` + key:  true,
		`a namespaces="git" ` + key + "\nb " + key: true,
		`a namespaces="git" ` + key:                false,
		`a namespaces="x y",valid-after="20200101" ` + key + "\nb " + key: true,
		"a cert-authority " + key:             false,
		`a valid-before="tomorrow" ` + key:    false,
		`a more="x" ` + key:                   false,
		`"a b" ` + key:                        false,
		key:                                   false,
		"a b c " + key:                        false,
		"a ssh-ed25519":                       false,
		"a ssh-ed25519 AAAA":                  false,
		"a ssh-dss " + key:                    false,
		"a " + key[:len(key)-8]:               false,
		"a namespaces=\"git " + key:           false,
		"-----BEGIN OPENSSH PRIVATE KEY-----": false,
		"":                                    false,
		"# none":                              false,
	} {
		_, why := names.Signers(text)
		_, err := ReadTrusted(signersFile(t, text), "")
		if (why == nil) != good || (err == nil) != good {
			t.Errorf("%q: the plan says %v, the node %v; want good: %v", text, why, err, good)
		}
	}
}
