package artifact

import (
	"errors"
	"net/url"
)

// plain removes the URL from an error: that of a redirect may contain a signature.
func plain(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}
