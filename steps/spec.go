// Package steps is the contract of the step kinds: small idempotent states of one machine or of one cluster, each
// with a check that only reads, a change that says what differs, and an apply that makes it so.
//
// A plan compiles into Specs (data, JSON), ordered per node. Package kinds holds the kinds, package executor runs
// them against a host.Host: in process for local and sandbox hosts, inside the agent for hosts reached over SSH or
// WinRM.
package steps

import (
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Spec is one step of one node as data.
type Spec struct {
	ID      string        `json:"id"` // unique in its node, [a-z0-9_]+
	Kind    string        `json:"kind"`
	Args    Args          `json:"args"`              // the kind's argument struct; strings may hold references (Ref)
	After   []string      `json:"after,omitempty"`   // ids of steps of the same node that come first
	OnlyIf  string        `json:"only_if,omitempty"` // run only when that step has something to change
	Timeout time.Duration `json:"timeout,omitempty"` // bound of one apply with its verification; 0 = the kind's default
	Retries int           `json:"retries,omitempty"` // further tries after a failure
	Source  string        `json:"source,omitempty"`  // "plan.join.hcl:12,3", where the plan asks for it
	Title   string        `json:"title,omitempty"`   // one short line for people
	// Keep leaves what it makes on the machine once the plan no longer has the step.
	Keep bool `json:"keep,omitempty"`
	// UntilLeave: what it makes stays until the machine leaves, as not each run of the plan has the step.
	UntilLeave bool `json:"until_leave,omitempty"`
}

// Source says where the bytes of an artifact come from and which they must be.
// Exactly one of URL and File is set.
type Source struct {
	URL    string `json:"url,omitempty" doc:"http or https address, fetched by the host itself"`
	File   string `json:"file,omitempty" doc:"path on the controller; handed to the host by digest"`
	SHA256 string `json:"sha256,omitempty" doc:"lower-case hex digest of the bytes"`
	SHA512 string `json:"sha512,omitempty" doc:"lower-case hex digest of the bytes"`
}

// Digest is the wanted digest and its algorithm; sha256 first.
func (s Source) Digest() (algorithm, hex string) {
	if s.SHA256 != "" {
		return "sha256", s.SHA256
	}
	return "sha512", s.SHA512
}

var (
	hex256 = regexp.MustCompile(`^[0-9a-f]{64}$`)
	hex512 = regexp.MustCompile(`^[0-9a-f]{128}$`)
)

// DigestAlgorithm returns the algorithm of a digest in lower-case hex, "sha256" or "sha512"; "" if it is not one.
func DigestAlgorithm(digest string) string {
	switch {
	case hex256.MatchString(digest):
		return "sha256"
	case hex512.MatchString(digest):
		return "sha512"
	}
	return ""
}

// IsArchive reports whether a file has the name of an archive that Env.Unpack reads.
func IsArchive(name string) bool {
	return slices.ContainsFunc([]string{".tar", ".tar.gz", ".tgz", ".zip"}, func(end string) bool {
		return strings.HasSuffix(strings.ToLower(name), end)
	})
}

// NewHash is the digest of an algorithm that Source.Digest names.
func NewHash(algorithm string) hash.Hash {
	if algorithm == "sha512" {
		return sha512.New()
	}
	return sha256.New()
}

// Name is the file path, or the URL without what may be secret in it.
func (s Source) Name() string {
	if s.File != "" {
		return s.File
	}
	return ShowURL(s.URL)
}

// Error is a failed step in a form that crosses the wire.
type Error struct {
	Code    Code   `json:"code"`
	Summary string `json:"summary"`                       // short and fixed: "wrong digest"
	Detail  string `json:"detail,omitempty" lines:"true"` // what is wrong, and why it matters
	Remedy  string `json:"remedy,omitempty" lines:"true"` // how to fix it
	Digest  string `json:"digest,omitempty"`              // with CodeBlobMissing: which
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return e.Summary
	}
	return e.Summary + ": " + e.Detail
}

// Code says what a caller can do about an Error.
type Code string

const (
	CodeFailed       Code = "failed"        // look at it
	CodeNotConverged Code = "not_converged" // applied, but the check still finds a difference
	CodeTimeout      Code = "timeout"       // a bounded wait ended
	CodeDigest       Code = "digest"        // bytes are not those that were promised
	CodeBlobMissing  Code = "blob_missing"  // the controller must stage the artifact first
	CodeNoSpace      Code = "no_space"
	CodeDenied       Code = "denied"
	CodeUnsupported  Code = "unsupported"
	CodeUnreachable  Code = "unreachable"  // cluster or host does not answer
	CodeUnauthorized Code = "unauthorized" // the cluster does not know our credentials, or no longer does
	CodeInvalid      Code = "invalid"      // arguments make no sense
	CodeKubeconfig   Code = "kubeconfig"   // the plan's kubeconfig is missing or wrong; nothing was asked
	CodeInterrupted  Code = "interrupted"
	CodeReboot       Code = "reboot"        // a reboot is pending, and not to be made now
	CodeLocked       Code = "locked"        // another run holds the machine or the cluster
	CodePaused       Code = "paused"        // an operator paused the node; the run goes on after that
	CodeOtherVersion Code = "other_version" // an artifact is another version than the plan says
)
