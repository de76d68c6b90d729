package agent

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"nodejoin/steps/supervise"
	"nodejoin/steps/transport/wire"
)

// digestSuffix follows the path of the agent's program in the path of the file that notes its digest.
const digestSuffix = ".sum"

// Digest is the sha256 of the agent's program, in hex. To compute it takes most of the agent's start, so it is done
// once after each boot: a file beside the program notes it, with what the kernel says of the program. Whoever writes
// to a program, or puts another in its place, changes that, and until the next boot the kernel has the content that
// was read. The digest finds an agent that is not whole or is another one; it does not detect a machine that lies.
// Where root runs the program of another user, owner, there is no note. An agent that was just sent is known by what
// it was unpacked from; the next start computes its digest.
func Digest(program string, owner int, sent Sent) (string, error) {
	if sent.Packed != "" {
		sum, err := supervise.Digest(sent.Packed)
		if gone := os.Remove(sent.Packed); err == nil && gone == nil && sum == sent.Sum {
			return sent.Digest, nil
		}
	}
	state, changed := programState(program)
	if owner != 0 || state == "" {
		return supervise.Digest(program)
	}
	if digest := notedDigest(program, state); digest != "" {
		return digest, nil
	}
	settled := time.Since(changed) > tick
	digest, err := supervise.Digest(program)
	if now, _ := programState(program); err == nil && settled && now == state {
		_ = noteDigest(program, state, digest) // else the next start computes it, too
	}
	return digest, err
}

// tick is longer than the steps in which the kernel's time of a change goes on: before Linux 6.13 up to 10 ms
// (CONFIG_HZ=100). What was changed within it may change again and look the same.
const tick = 20 * time.Millisecond

// bootID names the boot of the machine (random(4)).
const bootID = "/proc/sys/kernel/random/boot_id"

// programState is what changes with the content of a program, on one line, and when that last was; "" = that is not
// known, or it is not the caller's own.
func programState(program string) (state string, changed time.Time) {
	boot, err := os.ReadFile(bootID)
	var st unix.Stat_t
	if err != nil || unix.Lstat(program, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG ||
		int(st.Uid) != os.Geteuid() {
		return "", changed
	}
	return fmt.Sprintf("%s %d %d %d %d.%09d %d.%09d", bytes.TrimSpace(boot), st.Dev, st.Ino, st.Size,
		st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec), time.Unix(st.Ctim.Unix())
}

// digestLine is the content of the file.
func digestLine(state, digest string) string { return state + " " + digest + "\n" }

// notedDigest is the digest that is noted for the program in this state; "" = there is none.
func notedDigest(program, state string) string {
	f, err := os.OpenFile(program+digestSuffix, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG ||
		int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(f, 1<<10))
	digest := strings.TrimSuffix(strings.TrimPrefix(string(b), state+" "), "\n")
	valid := wire.Blob{Algorithm: "sha256", Digest: digest}.Valid()
	if err != nil || !valid || string(b) != digestLine(state, digest) {
		return ""
	}
	return digest
}

// noteDigest writes the file, whole or not at all.
func noteDigest(program, state, digest string) error {
	temp := program + digestSuffix + "." + strings.ToLower(rand.Text()[:8]) + wire.Leftover
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(digestLine(state, digest))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, program+digestSuffix)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temp))
	}
	return err
}
