package agent

// Sent says of an agent that a shell has just unpacked what zstd unpacked it from. That file is removed. Where it is
// as it was sent, so is the agent: zstd has compared the checksum of the content (RFC 8878 3.1.1).
type Sent struct {
	Digest string // sha256 of the agent, lower-case hex
	Packed string // path of the file; "" = it is not there
	Sum    string // sha256 of the file
}
