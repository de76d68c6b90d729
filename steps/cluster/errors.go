package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	netutil "k8s.io/apimachinery/pkg/util/net"

	"nodejoin/steps/kube"
)

// fail wraps the error of a request in the type that says what a caller can do. what names the request:
// "reading the Node win-1".
func (k *client) fail(ctx context.Context, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return k.failStatus(what, err, status.Status())
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &cert):
		return fmt.Errorf("%s: the certificate of the API server %s is not signed by the CA of the kubeconfig: %w", what,
			k.server, cert.Err)
	case unanswered(err):
		// Only the text of err: what it wraps must not pass for another answer.
		return fmt.Errorf("%s: %w: %s: %v", what, kube.ErrUnreachable, k.server, err) //nolint:errorlint // see above
	}
	return fmt.Errorf("%s: API server %s: %w", what, k.server, err)
}

func (k *client) failStatus(what string, err error, s metav1.Status) error {
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: %w: %s: %s", what, kube.ErrUnauthorized, k.server, s.Message)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: %w: %s", what, kube.ErrForbidden, s.Message)
	case apierrors.IsNotFound(err) && !foreign(s):
		return fmt.Errorf("%s: %w", what, fs.ErrNotExist)
	case apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err),
		apierrors.IsTooManyRequests(err), s.Code == 502, s.Code == 504:
		return fmt.Errorf("%s: %w: %s: %s", what, kube.ErrUnreachable, k.server, s.Message)
	case foreign(s):
		return fmt.Errorf("%s: %s responds, but not like an API server: %s", what, k.server, s.Message)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// foreign reports that the response is not from an API server but from a proxy or something else at that
// address; its "not found" means nothing.
func foreign(s metav1.Status) bool {
	if s.Details == nil {
		return false
	}
	for _, c := range s.Details.Causes {
		if c.Type == metav1.CauseTypeUnexpectedServerResponse {
			return true
		}
	}
	return false
}

// unanswered reports that there was no response, or an incomplete one.
func unanswered(err error) bool {
	var ne net.Error
	var op *net.OpError
	var dns *net.DNSError
	var no syscall.Errno
	return errors.As(err, &ne) && ne.Timeout() || errors.As(err, &op) || errors.As(err, &dns) || errors.As(err, &no) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded) ||
		netutil.IsHTTP2ConnectionLost(err)
}

func isForeign(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && foreign(status.Status())
}
