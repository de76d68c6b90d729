package names

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// signerTypes are the types of keys that may sign releases.
var signerTypes = []string{"ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384",
	"ecdsa-sha2-nistp521"}

// BadSigners says why a text cannot be a file of trusted keys (ssh-keygen(1), ALLOWED SIGNERS); "" = it can.
func BadSigners(text string) string {
	keys := 0
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "-----BEGIN"):
			return fmt.Sprintf("line %d begins a private key or a certificate; give public keys only", i+1)
		case !signerLine(line):
			return fmt.Sprintf("line %d has no name and public key of the type ed25519, ecdsa or rsa", i+1)
		default:
			keys++
		}
	}
	if keys == 0 {
		return "it has no key"
	}
	return ""
}

// signerLine reports whether a line has a name, perhaps options, and a whole public key.
func signerLine(line string) bool {
	words := strings.Fields(line)
	for i, typ := range words {
		if i == 0 || i+1 == len(words) || !slices.Contains(signerTypes, typ) {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(words[i+1])
		return err == nil && wholeKey(key, typ)
	}
	return false
}

// wholeKey reports whether a key is one of a type: fields with their lengths before them, the first of which is the
// type (RFC 4253, section 6.6).
func wholeKey(key []byte, typ string) bool {
	fields := 0
	for ; len(key) >= 4; fields++ {
		n := int(binary.BigEndian.Uint32(key))
		if n > len(key)-4 || fields == 0 && string(key[4:4+n]) != typ {
			return false
		}
		key = key[4+n:]
	}
	return len(key) == 0 && fields > 1
}
