package pull

import (
	"bytes"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"nodejoin/plan/names"
)

// Signers are the keys that may sign releases.
type Signers []names.Signer

// readSigners reads a file of trusted keys.
func readSigners(file string, read func(file string) ([]byte, error)) (Signers, error) {
	b, err := read(file)
	if err != nil {
		return nil, err
	}
	out, err := names.Signers(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

// find returns the name of a key.
func (s Signers) find(key ssh.PublicKey, now time.Time) (string, error) {
	have := key.Marshal()
	err := fmt.Errorf("its signature is of a key that is not trusted here: %s", ssh.FingerprintSHA256(key))
	for _, one := range s {
		switch {
		case !bytes.Equal(one.Key, have):
		case !one.After.IsZero() && now.Before(one.After):
			err = fmt.Errorf("the key of %s is trusted from %s on", one.Name, one.After.UTC().Format(time.RFC3339))
		case !one.Before.IsZero() && !now.Before(one.Before):
			err = fmt.Errorf("the key of %s was trusted until %s", one.Name, one.Before.UTC().Format(time.RFC3339))
		default:
			return one.Name, nil
		}
	}
	return "", err
}
