package recipe

import (
	"fmt"
	"time"
)

// Join says how the kubelet gets its first credentials.
type Join struct {
	Kind string        // "bootstrap_token"
	TTL  time.Duration // of the token
}

func checkJoin(in Input) error {
	if in.Join.Kind != "bootstrap_token" {
		return &UnsupportedError{"cluster", fmt.Sprintf("join %q is not known; bootstrap_token is", in.Join.Kind)}
	}
	return nil
}
