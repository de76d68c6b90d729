// Package wire is what the controller and the agent say to each other: JSON-RPC
// 2.0, one message a line, over the agent's standard input and output.
//
// The agent speaks first: a notification "hello". Events of an apply are
// notifications "event" that come before the reply. Calls are made one at a time;
// the notifications of the controller (cancel, ping, bye) may come in between.
package wire

import (
	"fmt"

	"nodejoin/steps"
)

// Protocol is the version of the messages. The controller pushes the agent that
// it was built with, so both sides are always of one version; it is sent for logs.
const Protocol = 1

// Calls to the agent itself. Those to its executor are the table Calls.
const (
	MethodBlobBegin = "blob_begin" // Blob -> BlobState
	MethodBlobPart  = "blob_part"  // BlobPart -> None: its bytes are in the temporary file
	MethodBlobFetch = "blob_fetch" // BlobFetch -> None: what was missing is in the temporary file
	MethodBlobEnd   = "blob_end"   // Blob -> None: the temporary file becomes the blob
	MethodForget    = "forget"     // steps.LeaveRequest -> steps.ForgetReply
	MethodSecure    = "secure"     // None -> Secured: the data folder becomes private
	MethodLock      = "lock"       // steps.LockRequest -> steps.LockReply
	MethodUnlock    = "unlock"     // None -> None
)

// Notifications.
const (
	NoteHello  = "hello"  // agent: Hello
	NoteEvent  = "event"  // agent: an encoded event.Event
	NoteCancel = "cancel" // controller: stop the running call
	NotePing   = "ping"   // controller: still there
	NoteBye    = "bye"    // controller: the run is over, drop what was staged
)

// CrashSuffix follows the path of the agent's program in the path of the file with what it said
// when it crashed, where that does not go to standard error.
const CrashSuffix = ".crash"

// AgentPrefix begins the names of all files in the agent's folder. Leftover ends those of files that are being sent
// or were replaced.
const (
	AgentPrefix = "nodejoin-agent-"
	Leftover    = ".new"
)

// Hello is the agent's first message.
type Hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Digest   string `json:"digest"` // sha256 of the agent's own file (see agent.Sent), lower-case hex
	// Secured is what came of the data folder where the command line asked for that; nil = it did not. Unsecured is why
	// it failed.
	Secured   *Secured     `json:"secured,omitempty"`
	Unsecured *steps.Error `json:"unsecured,omitempty"`
	// Inside is why the agent is in the shell that it was started in, and ends with it, though it was to leave that.
	Inside string `json:"inside,omitempty"`
}

// NoAgent is the line of a machine's shell that does not find the agent and waits for it: a line of PackedFollows, the
// number of bytes of the packed agent, the end of its file's name (agentbin.TGZ or, if the line was NoAgentZstd,
// agentbin.Zstd) and its sha256, then these bytes. It ignores lines before that, and says PackedTaken when it begins
// to take the bytes.
const (
	NoAgent       = "nodejoin-agent is absent"
	NoAgentZstd   = "nodejoin-agent is absent, zstd is there"
	PackedFollows = "nodejoin-agent-follows"
	PackedTaken   = "nodejoin-agent is taken"
)

// Announcement is a message that says the length of the line that follows it, in bytes with its end. The agent takes
// it for NotePing. A shell reads lines byte by byte, and skips at once one that is announced: it sees the number as
// the second of three words, of which the third is AnnouncementEnd.
func Announcement(length int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":[ %d %s`, NotePing, length, AnnouncementEnd)
}

// AnnouncementEnd is the last word of an Announcement.
const AnnouncementEnd = "]}"

// Blob names an artifact of the controller by digest.
type Blob struct {
	Algorithm string `json:"algorithm"` // "sha256" or "sha512"
	Digest    string `json:"digest"`    // lower-case hex
	Size      int64  `json:"size"`      // bytes
}

// BlobPart is a part of an artifact, where the way to the machine has no files of its own. Parts come in their order.
type BlobPart struct {
	Blob

	Offset int64  `json:"offset"`
	Data   []byte `json:"data"`
}

// BlobFetch says from where the agent fetches what is missing of an artifact: it connects by TLS, sends the token, and
// gets the bytes from Offset on.
type BlobFetch struct {
	Blob

	Offset            int64  `json:"offset"`
	Addr              string `json:"addr"`               // address and port of the controller
	CertificateSHA256 string `json:"certificate_sha256"` // of the controller's certificate, lower-case hex
	Token             string `json:"token"`
}

// Valid reports whether Digest has the form of a digest; it becomes a file name.
func (b Blob) Valid() bool { return steps.DigestAlgorithm(b.Digest) != "" }

// Secured answers secure.
type Secured struct {
	// Moved are files and folders that others could have made; they have these paths now.
	Moved []string `json:"moved,omitempty"`
}

// BlobState answers blob_begin.
type BlobState struct {
	Have bool   `json:"have"`           // it is there already
	Temp string `json:"temp,omitempty"` // else: the file to send it to, a path of the host
	// Part is how many bytes of it an earlier transfer left in Temp, and PartSHA256 their digest.
	Part       int64  `json:"part,omitempty"`
	PartSHA256 string `json:"part_sha256,omitempty"`
}

// FrameHead is how many bytes are before those of a part of an artifact that is not in a message: the offset (8 bytes)
// and the length (4), most significant byte first.
const FrameHead = 12

// InFlight is how many bytes at the end of a file may have gaps after its transfer was cut: they are written in any
// order.
const InFlight = 8 << 20
