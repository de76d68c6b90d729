package wsman

import (
	"encoding/base64"
	"encoding/binary"
)

// pairs are the two letters of base64 (RFC 4648, 4) for each 12 bits, as they follow each other in memory.
var pairs = func() (p [1 << 12]uint16) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	for i := range p {
		p[i] = uint16(letters[i>>6]) | uint16(letters[i&0x3f])<<8
	}
	return p
}()

// encode writes src in base64 to dst, and returns how many letters that are. With six bytes at once it takes less than
// half the time of encoding/base64, which was a third of what an artifact through WinRM took the controller.
func encode(dst, src []byte) int {
	n := base64.StdEncoding.EncodedLen(len(src))
	dst = dst[:n]
	for len(src) >= 8 && len(dst) >= 8 {
		six := binary.BigEndian.Uint64(src) >> 16
		binary.LittleEndian.PutUint64(dst, uint64(pairs[six>>36])|uint64(pairs[six>>24&0xfff])<<16|
			uint64(pairs[six>>12&0xfff])<<32|uint64(pairs[six&0xfff])<<48)
		src, dst = src[6:], dst[8:]
	}
	base64.StdEncoding.Encode(dst, src)
	return n
}
