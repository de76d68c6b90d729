package agent

// Sent says of an agent that a shell has just unpacked what it was unpacked from. That file is removed. Where it is as
// it was sent, so is the agent: what unpacked it has compared a checksum (of zstd, RFC 8878 3.1.1, or gzip, RFC 1952).
type Sent struct {
	Digest string // sha256 of the agent, lower-case hex
	Packed string // path of the file; "" = it is not there
	Sum    string // sha256 of the file
}
