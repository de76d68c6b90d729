package supervise

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
)

// Self is the path of this program, for services that should run it, and its sha256 in hex.
func Self() (path, digest string, err error) {
	if path, err = os.Executable(); err == nil {
		digest, err = Digest(path)
	}
	return path, digest, err
}

// Digest is the sha256 of a program, in hex.
func Digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	// Large reads, bypassing WriteTo and ReadFrom, which use 32 KiB.
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{f}, make([]byte, 1<<20)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
