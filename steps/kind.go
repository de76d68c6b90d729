package steps

import (
	"context"
	"strings"
	"time"

	"nodejoin/steps/host"
	"nodejoin/steps/kube"
	"nodejoin/steps/record"
)

// Place says whether a kind is a state of a host or of the cluster.
type Place string

const (
	OnHost    Place = "host"    // one machine; runs where the machine is
	OnCluster Place = "cluster" // the Kubernetes API; runs on the controller
)

// HostStep is a state of one machine.
//
// Check reads and never changes; arguments may still hold references (HasRef),
// which then count as "differs, not known yet". Apply makes the state so, is
// called only with a Change of Check that is not a no-op, and may be interrupted
// after any mutating call: Check and Apply again must then finish it.
type HostStep interface {
	Check(ctx context.Context, r host.Reader, e *Env) (Change, error)
	Apply(ctx context.Context, h host.Host, e *Env, c Change) (Outcome, error)
}

// ClusterStep is a state of the Kubernetes API.
type ClusterStep interface {
	Check(ctx context.Context, r kube.Reader, e *Env) (Change, error)
	Apply(ctx context.Context, a kube.API, e *Env, c Change) (Outcome, error)
}

// Kind describes a step kind. New returns a pointer to a zero argument struct that
// is a HostStep or a ClusterStep. Its exported fields are the arguments; their tags:
//
//	json     the argument's name; with omitempty it is optional
//	doc      what it is, for the reference of the language
//	default  its value where the plan gives none
//	choices  the words that it can be, with a comma between them
//	id       "true": it names what the step is about; a step that wants it absent needs it too
//	present  "true": it describes a thing that exists, so it has no effect with absent
//	path     "true": an absolute path of the machine, or a list of such
//	findings "true": a list of ids of findings that do not count
//	os       the one operating system on which it has an effect
//	with     the argument without which it has no effect; why says why
//	lang     "-": not an argument of the language; the compiler fills it
//	secret   "true": it takes a sensitive value, which sets the argument sensitive
//
// The functions get an argument struct of New; nil means that there is nothing to say.
type Kind struct {
	Name  string
	Doc   string
	Place Place
	// Args describes arguments whose text is too long for the tag doc.
	Args    map[string]string
	Timeout time.Duration // default bound of one apply; 0 = DefaultTimeout
	Outputs []string      // names of the values it gives to later steps
	// Shared: its state is the cluster's, not the node's. Of several nodes with the same
	// step the first makes it so.
	Shared bool
	// Trusts: what it makes is trusted by others because of its arguments, so that no value fills them that a
	// machine said of itself. The machine's address is then the one at which it was reached (ReachedAddress).
	Trusts bool
	// Reboots: its apply ends with the machine going down; whoever runs it looks again
	// once the machine is back.
	Reboots bool
	// AfterBoot: on Windows, what it makes counts only after a boot, which may undo it.
	AfterBoot bool
	// Waits: it changes nothing; its apply waits until something is so, or fails.
	Waits bool
	// Finds: it changes nothing; its check reports findings.
	Finds bool
	// Image: what it makes is the same on every machine with the same arguments, so that an image may have it.
	Image bool
	// Restored: of a kind of the cluster, a rollback of the machine restores it, too.
	Restored bool
	// Ends: it comes after all other steps of a join. From it on the node is verified, takes
	// pods, and is not rolled back.
	Ends bool
	// Undo says how what the kind claims on a machine is undone, by the prefix of the key.
	Undo map[record.Prefix]Undo
	// OS is the only operating system that has such a thing; "" = every one.
	OS  string
	New func() any
	// Makes is what a step makes on a machine of the OS.
	Makes func(step any, os string) Thing
	// Claims are the keys of all that a step, as it is written, claims on a machine, except
	// for the folders and registry keys above; nil = the key of Makes alone.
	Claims func(step any, e *Env) []record.Key
	// Fresh is all that a step claims where there is no such file or folder, but for those above, and then it makes
	// it, with its own content; the zero value = the step does more.
	Fresh func(step any) record.Ahead
	// Keeps are those of Claims that stay when the plan no longer has the step, which itself goes.
	Keeps func(step any) []record.Key
	// Objects are the objects of the cluster that a step makes; nil = none. An error is of CodeInvalid.
	Objects func(step any) ([]kube.Manifest, error)
	// Title is a step's line in a plan; without it, the arguments with the tag id.
	Title func(step any) string
	// Installs is the artifact that a step puts on the machine.
	Installs func(step any) Source
	// Runs is the service that a step registers.
	Runs func(step any) host.ServiceConfig
	// Gate is the service that a gate waits for; "" = none.
	Gate func(step any) string
	// Starts is the service that a step starts and does not register.
	Starts func(step any) string
	// Secrets replaces each secret in the arguments by what shown returns for it.
	Secrets func(step any, shown func(secret string) string)
	// Render is what render writes of a step. It takes out of the arguments what a file of the
	// Rendering holds.
	Render func(step any, to RenderFor) (Rendering, error)
	// Evidence is what a bug report shows of a step.
	Evidence func(step any) []Evidence
	// Credentials reads the credentials that a step has on a machine of the OS. Those that are not there, or cannot be
	// read as such, are none: the steps' own checks report them.
	Credentials func(ctx context.Context, step any, r host.FilesReader, os string) ([]Credential, error)
	// Review finds arguments that are wrong, or that have no effect beside the others.
	Review func(step any, w Written) []Remark
}

// Written is how a plan writes a step.
type Written struct {
	OS       string                // of the machine; "" = not known yet
	Has      func(arg string) bool // the plan gives the argument
	Constant func(arg string) bool // it gives it as a value that is not computed
}

// Remark is a fault of a step's argument.
type Remark struct {
	Arg     string
	Summary string // of the diagnostic; "" = the argument has no effect
	Detail  string
	Warning bool // it works, but not as one may think
}

// Installs makes Kind.Installs of a function that takes the kind's own struct.
func Installs[S any](f func(*S) Source) func(any) Source {
	return func(step any) Source { return f(step.(*S)) }
}

// Runs makes Kind.Runs of a function that takes the kind's own struct.
func Runs[S any](f func(*S) host.ServiceConfig) func(any) host.ServiceConfig {
	return func(step any) host.ServiceConfig { return f(step.(*S)) }
}

// Shows makes Kind.Evidence of a function that takes the kind's own struct.
func Shows[S any](f func(*S) []Evidence) func(any) []Evidence {
	return func(step any) []Evidence { return f(step.(*S)) }
}

// Makes makes Kind.Makes of a function that takes the kind's own struct.
func Makes[S any](f func(*S, string) Thing) func(any, string) Thing {
	return func(step any, os string) Thing { return f(step.(*S), os) }
}

// Claims makes Kind.Claims of a function that takes the kind's own struct.
func Claims[S any](f func(*S, *Env) []record.Key) func(any, *Env) []record.Key {
	return func(step any, e *Env) []record.Key { return f(step.(*S), e) }
}

// Keeps makes Kind.Keeps of a function that takes the kind's own struct.
func Keeps[S any](f func(*S) []record.Key) func(any) []record.Key {
	return func(step any) []record.Key { return f(step.(*S)) }
}

// Title makes Kind.Title of a function that takes the kind's own struct.
func Title[S any](f func(*S) string) func(any) string {
	return func(step any) string { return f(step.(*S)) }
}

// Gate makes Kind.Gate of a function that takes the kind's own struct.
func Gate[S any](f func(*S) string) func(any) string { return Title(f) }

// Starts makes Kind.Starts of a function that takes the kind's own struct.
func Starts[S any](f func(*S) string) func(any) string { return Title(f) }

// Secrets makes Kind.Secrets of a function that takes the kind's own struct.
func Secrets[S any](f func(*S, func(string) string)) func(any, func(string) string) {
	return func(step any, shown func(string) string) { f(step.(*S), shown) }
}

// Review makes Kind.Review of a function that takes the kind's own struct.
func Review[S any](f func(*S, Written) []Remark) func(any, Written) []Remark {
	return func(step any, w Written) []Remark { return f(step.(*S), w) }
}

// Thing is what a step makes. The zero Thing is nothing that another step could make too.
type Thing struct {
	// Key names it as the record does.
	Key record.Key
	// Words name it for people. Two steps for one thing would each undo the other; "" = they
	// would not.
	Words string
}

// Same is the key that is equal for things of the OS that are the same one.
func (t Thing) Same(os string) string {
	switch {
	case t.Words == "":
		return ""
	case t.Key.Prefix == record.File || t.Key.Prefix == record.Directory:
		return "path " + host.PathKey(os, t.Key.Name)
	case os == "windows":
		return strings.ToLower(t.Key.String())
	}
	return t.Key.String()
}
