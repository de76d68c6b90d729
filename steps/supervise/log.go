package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// log is a file of bounded size: when it is full it becomes FILE.1, that FILE.2 and
// so on; the oldest goes. Files break at line ends where there is one. It may be
// used by several goroutines.
//
// Write never fails: a full disk must neither block nor end the program. What could not be written is
// counted and reported later.
type log struct {
	path string
	max  int64
	keep int
	name string

	mu    sync.Mutex
	file  *os.File // nil after a failed reopening
	size  int64
	limit int64 // size at which the next rotation is tried; max unless one failed
	open  bool  // the last line has no end
	lost  int64 // bytes
	why   error // of the loss
}

// openLog opens or makes the file, and its folder. name marks the lines of Say.
func openLog(path string, max int64, keep int, name string) (*log, error) {
	l := &log{path: path, max: max, keep: keep, name: name, limit: max}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return l, l.reopen()
}

// OpenLog opens or makes a log for a program's own lines: FILE with up to max bytes,
// and keep older ones. Its Write never fails.
func OpenLog(path string, max int64, keep int) (io.WriteCloser, error) {
	return openLog(path, max, keep, filepath.Base(path))
}

func (l *log) reopen() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write takes output of the program. It always takes all.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(p)
	return len(p), nil
}

// Say writes a line of the supervisor itself: time (UTC), mark, text.
func (l *log) Say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.say(fmt.Sprintf(format, args...))
}

func (l *log) say(text string) {
	if l.open {
		l.write([]byte{'\n'})
	}
	l.write(l.line(text))
}

func (l *log) line(text string) []byte {
	return fmt.Appendf(nil, "%s [supervise %s] %s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), l.name, text)
}

// Close closes the file; writing is over.
func (l *log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	return f.Close()
}

func (l *log) write(p []byte) {
	for len(p) > 0 {
		n := l.fit(p)
		if n == 0 {
			l.rotate()
			continue
		}
		l.append(p[:n])
		p = p[n:]
	}
}

// fit is how much of p fits into the file; 0 asks for a new file.
func (l *log) fit(p []byte) int {
	room := l.limit - l.size
	if int64(len(p)) <= room {
		return len(p)
	}
	if room <= 0 {
		return 0
	}
	if i := bytes.LastIndexByte(p[:room], '\n'); i >= 0 {
		return i + 1
	}
	if !l.open && l.size > 0 {
		return 0 // the line begins the next file
	}
	return int(room)
}

func (l *log) append(p []byte) {
	if l.file == nil {
		if err := l.reopen(); err != nil {
			l.lost, l.why = l.lost+int64(len(p)), err
			l.size += int64(len(p)) // so that a rotation is not asked for at once
			return
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	if n > 0 {
		l.open = p[n-1] != '\n'
	}
	if err != nil {
		l.lost, l.why = l.lost+int64(len(p)-n), err
		return
	}
	if l.lost > 0 {
		lost, why := l.lost, l.why
		l.lost, l.why = 0, nil
		l.say(fmt.Sprintf("%d bytes of output were lost: %v", lost, why))
	}
}

// rotate begins a new file. If the files cannot be renamed (another program holds one open), the file grows
// by another max bytes.
func (l *log) rotate() {
	var err error
	if l.file != nil { // else the file could not be opened, and there is nothing to rename
		err = errors.Join(l.file.Close(), l.shift())
		l.file, l.size = nil, 0
	}
	l.limit = l.max
	if err = errors.Join(err, l.reopen()); err == nil {
		return
	}
	if l.file != nil {
		l.append(l.line(fmt.Sprintf("the log could not be rotated: %v", err)))
	} else {
		l.size = 0 // what cannot be written needs no further rotation
	}
	l.limit = l.size + l.max
}

// shift moves FILE to FILE.1, FILE.1 to FILE.2 ... up to the first free number; if there is none, FILE.keep
// is removed.
func (l *log) shift() error {
	if l.keep == 0 {
		return ignoreAbsent(os.Remove(l.path))
	}
	free := 1
	for ; free < l.keep; free++ {
		if _, err := os.Lstat(l.numbered(free)); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	for i := free; i > 0; i-- {
		if err := ignoreAbsent(os.Rename(l.numbered(i-1), l.numbered(i))); err != nil {
			return err
		}
	}
	return nil
}

func (l *log) numbered(i int) string {
	if i == 0 {
		return l.path
	}
	return l.path + "." + strconv.Itoa(i)
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
