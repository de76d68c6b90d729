package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/kube"
)

// AsError turns err into its wire form, with the code, summary and remedy of its type.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var se *Error
	if errors.As(err, &se) {
		return se
	}
	e := &Error{Code: CodeFailed, Summary: "the step failed", Detail: err.Error()}
	var de *host.DigestError
	switch {
	case errors.As(err, &de):
		e.Code, e.Summary = CodeDigest, "wrong digest"
		e.Remedy = "nothing of it was kept; compare the digest in the plan with the one its publisher gives, then " +
			"fix the plan or the mirror"
	case errors.As(err, new(*FetchError)):
		e.Summary = "artifact not fetched"
		e.Remedy = "check the address, and on the machine the way to it: its proxy, and the certificate authorities " +
			"that it trusts (host { trusted_cas }); then run the same command again"
	case errors.Is(err, host.ErrDirectory):
		e.Code, e.Summary = CodeInvalid, "a directory is in the way"
		e.Remedy = "move the directory away, or use another path"
	case errors.Is(err, host.ErrFile):
		e.Code, e.Summary = CodeInvalid, "a file is in the way"
		e.Remedy = "move the file away, or use another path"
	case errors.Is(err, host.ErrForeign):
		e.Code, e.Summary = CodeDenied, "nodejoin's own files could be another's"
		e.Remedy = "nothing of it was read; find out who made it, and rename or remove it. nodejoin makes its folder for " +
			"administrators alone, and again where it is missing"
	case errors.Is(err, host.ErrNoSpace), errors.Is(err, syscall.ENOSPC):
		e.Code, e.Summary = CodeNoSpace, "disk full"
		e.Remedy = "free space on that volume and apply again; the run goes on from this step"
	case errors.Is(err, host.ErrUnsupported):
		e.Code, e.Summary = CodeUnsupported, "not supported on this machine"
	case errors.Is(err, fs.ErrPermission):
		e.Code, e.Summary = CodeDenied, "access denied"
		e.Remedy = "run as a user with administrator rights on the machine"
	case errors.Is(err, host.ErrServiceExited):
		e.Summary = "the service ended by itself"
		e.Remedy = "read its log; a wrong flag or configuration is the usual cause"
	case errors.Is(err, kube.ErrUnreachable):
		e.Code, e.Summary = CodeUnreachable, "the API server does not answer"
		e.Remedy = "check the address in the kubeconfig and the way to it"
	case errors.Is(err, kube.ErrUnauthorized):
		e.Code, e.Summary = CodeUnauthorized, "the API server refused the credentials"
		e.Remedy = "the kubeconfig's token or certificate has expired, was revoked, or is another cluster's: get a new one"
	case errors.Is(err, kube.ErrForbidden):
		e.Code, e.Summary = CodeDenied, "the credentials lack a permission"
		e.Remedy = "use the kubeconfig of a user with this permission, or grant it"
	case errors.Is(err, context.Canceled):
		return Interrupted("apply")
	}
	return e
}

// FetchError is why a server's artifact was not read to its end.
type FetchError struct{ Err error }

func (e *FetchError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *FetchError) Unwrap() error { return e.Err }

// Interrupted is the error of a run that was stopped; command is the one that continues it.
func Interrupted(command string) *Error {
	return &Error{Code: CodeInterrupted, Summary: "interrupted",
		Detail: "the run was stopped; the next " + command + " continues from here"}
}

// Done is the event of a step's end: d, or with an error the failed step that d names.
func Done(d event.StepDone, err error) event.StepDone {
	if e := AsError(err); e != nil {
		d.Result, d.Summary, d.Detail, d.Remedy = "failed", e.Summary, e.Detail, e.Remedy
	}
	return d
}

// Invalid is the error for arguments of a step that make no sense.
func Invalid(format string, args ...any) error {
	return &Error{Code: CodeInvalid, Summary: "wrong step arguments", Detail: fmt.Sprintf(format, args...)}
}
