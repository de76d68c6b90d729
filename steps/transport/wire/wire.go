// Package wire is what the controller and the agent say to each other: JSON-RPC
// 2.0, one message a line, over the agent's standard input and output.
//
// The agent speaks first: a notification "hello". Events of an apply are
// notifications "event" that come before the reply. Calls are made one at a time;
// the notifications of the controller (cancel, ping, bye) may come in between.
package wire

import "regexp"

// Protocol is the version of the messages. The controller pushes the agent that
// it was built with, so both sides are always of one version; it is told for logs.
const Protocol = 1

// Calls of the controller.
const (
	MethodCheck      = "check"       // steps.Request -> steps.CheckReply
	MethodApply      = "apply"       // steps.Request -> steps.ApplyReply
	MethodBlobBegin  = "blob_begin"  // Blob -> BlobState
	MethodBlobEnd    = "blob_end"    // Blob -> nothing: the temporary file becomes the blob
	MethodLeaveCheck = "leave_check" // steps.LeaveRequest -> steps.LeaveReply
	MethodLeave      = "leave"       // steps.LeaveRequest -> steps.LeaveReply
	MethodTakeBack   = "take_back"   // steps.TakeBackRequest -> steps.TakeBackReply
	MethodVerified   = "verified"    // nothing -> nothing
	MethodForget     = "forget"      // steps.LeaveRequest -> steps.ForgetReply
	MethodSecure     = "secure"      // nothing -> nothing: the data folder becomes private
	MethodLock       = "lock"        // steps.LockRequest -> steps.LockReply
	MethodUnlock     = "unlock"      // nothing -> nothing
	MethodNote       = "note"        // steps.RunNote -> nothing
	MethodGather     = "gather"      // steps.GatherRequest -> steps.GatherReply
	MethodExamine    = "examine"     // steps.ExamineRequest -> steps.ExamineReply
)

// Notifications.
const (
	NoteHello  = "hello"  // agent: Hello
	NoteEvent  = "event"  // agent: an encoded event.Event
	NoteCancel = "cancel" // controller: give up the running call
	NotePing   = "ping"   // controller: still there
	NoteBye    = "bye"    // controller: the run is over, drop what was staged
)

// Hello is the agent's first message.
type Hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Digest   string `json:"digest"` // sha256 of the agent's own file, lower-case hex
}

// Blob names an artifact of the controller by digest.
type Blob struct {
	Algorithm string `json:"algorithm"` // "sha256" or "sha512"
	Digest    string `json:"digest"`    // lower-case hex
	Size      int64  `json:"size"`      // bytes
}

var hexPattern = regexp.MustCompile(`^([0-9a-f]{64}|[0-9a-f]{128})$`)

// Valid tells whether the digest has the form of one; it becomes a file name.
func (b Blob) Valid() bool { return hexPattern.MatchString(b.Digest) }

// BlobState answers blob_begin.
type BlobState struct {
	Have bool   `json:"have"`           // it is there already
	Temp string `json:"temp,omitempty"` // else: the file to send it to, a path of the host
}
