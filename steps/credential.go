package steps

import (
	"context"
	"time"

	"nodejoin/steps/host"
)

// Credential is a credential of a machine and its life.
type Credential struct {
	What string    `json:"what"` // "token", "client certificate", "serving certificate" or "CA"
	Path string    `json:"path"`
	From time.Time `json:"from"`
	Ends time.Time `json:"ends"`
	// Late is when it should have been renewed: in the last third of a token's life, in the last tenth of a
	// certificate's, as the kubelet renews its own after 70 to 90 % (k8s.io/client-go util/certificate).
	Late time.Time `json:"late"`
}

// Credentials makes Kind.Credentials of a function that takes the kind's own struct.
func Credentials[S any](f func(*S, context.Context, host.FilesReader, string) ([]Credential, error)) func(
	context.Context, any, host.FilesReader, string) ([]Credential, error) {
	return func(ctx context.Context, step any, r host.FilesReader, os string) ([]Credential, error) {
		return f(step.(*S), ctx, r, os)
	}
}
