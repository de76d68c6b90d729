package winrmtest

import (
	"encoding/base64"
	"encoding/binary"
)

// bits are the 12 bits of each two letters of base64 (RFC 4648, 4), as they follow each other in memory. Two bytes
// that are not letters have notBits.
var bits = func() (t [1 << 16]uint16) {
	for i := range t {
		t[i] = notBits
	}
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	for i := range 1 << 12 {
		t[uint16(letters[i>>6])|uint16(letters[i&0x3f])<<8] = uint16(i)
	}
	return t
}()

const notBits = 1 << 15

// decode is base64.StdEncoding.Decode, with eight letters at once: that was two fifths of what the server took for an
// artifact. What it does not know, as line ends and errors, encoding/base64 decodes.
func decode(dst, src []byte) (int, error) {
	done := 0
	for len(src) > 8 && len(dst)-done >= 8 {
		eight := binary.LittleEndian.Uint64(src)
		a, b, c, d := bits[uint16(eight)], bits[uint16(eight>>16)], bits[uint16(eight>>32)], bits[uint16(eight>>48)]
		if (a|b|c|d)&notBits != 0 {
			break
		}
		binary.BigEndian.PutUint64(dst[done:], uint64(a)<<52|uint64(b)<<40|uint64(c)<<28|uint64(d)<<16)
		src, done = src[8:], done+6
	}
	n, err := base64.StdEncoding.Decode(dst[done:], src)
	return done + n, err
}
