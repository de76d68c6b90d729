// Command oscommands stands in for programs of Windows that Wine lacks, or has as stubs: the one whose name it has. It
// knows of each no more than user data uses; anything else fails, as a wrong parameter does.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// tasks is the folder of the tasks: a file has the command of one, and beside it is NAME.run if it is to run at once.
const tasks = `C:\windows\tasks-stand-in`

// endings has in each line the exit code of a start of findstr that ends before it does anything.
const endings = `C:\windows\findstr-endings`

// Exit codes of certutil are HRESULTs: they are negative.
const (
	fileNotFound = -0x7ff8fffe // 0x80070002
	accessDenied = -0x7ff8fffb // 0x80070005
	invalidData  = -0x7ff8fff3 // 0x8007000d
)

func main() {
	name := strings.TrimSuffix(strings.ToLower(filepath.Base(os.Args[0])), ".exe")
	act := map[string]func([]string) int{"curl": curl, "certutil": certutil, "findstr": findstr,
		"schtasks": schtasks}[name]
	if act == nil {
		os.Exit(87)
	}
	os.Exit(act(os.Args[1:]))
}

// matches reports whether args are these, where "*" takes any, and returns those.
func matches(args []string, form string) (values []string, ok bool) {
	want := strings.Fields(form)
	if len(args) != len(want) {
		return nil, false
	}
	for i, w := range want {
		if w == "*" {
			values = append(values, args[i])
		} else if args[i] != w {
			return nil, false
		}
	}
	return values, true
}

// curl has the exit codes of curl(1): 7 failed to connect, 22 an error of HTTP, 23 failed to write.
func curl(args []string) int {
	v, ok := matches(args, "--fail --silent --location --connect-timeout 30 --output * *")
	if !ok {
		return 2
	}
	r, err := http.Get(v[1])
	if err != nil {
		return 7
	}
	defer r.Body.Close()
	if r.StatusCode >= http.StatusBadRequest {
		return 22
	}
	out, err := os.Create(v[0])
	if err != nil {
		return 23
	}
	_, err = io.Copy(out, r.Body)
	if errors.Join(err, out.Close()) != nil {
		return 23
	}
	return 0
}

func certutil(args []string) int {
	if v, ok := matches(args, "-f -decode * *"); ok {
		return decode(v[0], v[1])
	}
	v, ok := matches(args, "-hashfile * SHA256")
	if !ok {
		return 87
	}
	b, err := os.ReadFile(v[0])
	if err != nil {
		fmt.Printf("CertUtil: -hashfile command FAILED: %v\r\n", err)
		return fileNotFound
	}
	fmt.Printf("SHA256 hash of %s:\r\n%x\r\nCertUtil: -hashfile command completed successfully.\r\n", v[0],
		sha256.Sum256(b))
	return 0
}

// decode is certutil -decode. It takes what is between the first lines "-----BEGIN ...-----" and "-----END ...-----",
// as CryptStringToBinary does with CRYPT_STRING_BASE64HEADER, and skips white space there and all that is before
// (batch files carry files in themselves so); anything else is ERROR_INVALID_DATA. A text may be in UTF-16.
func decode(from, to string) int {
	b, err := os.ReadFile(from)
	if err != nil {
		fmt.Printf("CertUtil: -decode command FAILED: %v\r\n", err)
		return fileNotFound
	}
	size := len(b)
	if wide, ok := bytes.CutPrefix(b, []byte{0xff, 0xfe}); ok {
		units := make([]uint16, len(wide)/2)
		for i := range units {
			units[i] = binary.LittleEndian.Uint16(wide[2*i:])
		}
		b = []byte(string(utf16.Decode(units)))
	}
	_, body, _ := bytes.Cut(b, []byte("-----BEGIN "))
	_, body, began := bytes.Cut(body, []byte("-----"))
	body, _, ended := bytes.Cut(body, []byte("-----END "))
	body = bytes.Join(bytes.Fields(body), nil)
	out := make([]byte, base64.StdEncoding.DecodedLen(len(body)))
	n, err := base64.StdEncoding.Decode(out, body)
	if !began || !ended || n == 0 || err != nil {
		fmt.Print("DecodeFile returned The data is invalid. 0x8007000d (WIN32: 13 ERROR_INVALID_DATA)\r\n")
		return invalidData
	}
	if err := os.WriteFile(to, out[:n], 0o644); err != nil {
		fmt.Printf("CertUtil: -decode command FAILED: %v\r\n", err)
		return accessDenied
	}
	fmt.Printf("Input Length = %d\r\nOutput Length = %d\r\nCertUtil: -decode command completed successfully.\r\n",
		size, n)
	return 0
}

// findstr has the exit codes 0 for lines found, 1 for none and for a file that it cannot open, 2 for wrong parameters.
// It passes bytes on as they are: a text in UTF-16 has no line with a literal.
func findstr(args []string) int {
	if code, ok := end(); ok {
		return code
	}
	inverted := len(args) > 0 && args[0] == "/v"
	if inverted {
		args = args[1:]
	}
	v, ok := matches(args, "/l * *")
	if !ok || !strings.HasPrefix(v[0], "/c:") || len(v[0]) > len("/c:")+254 {
		return 2
	}
	b, err := os.ReadFile(v[1])
	if err != nil {
		fmt.Fprintf(os.Stderr, "FINDSTR: Cannot open %s\r\n", v[1])
		return 1
	}
	found := 1
	for line := range bytes.Lines(b) {
		if bytes.Contains(line, []byte(v[0][len("/c:"):])) != inverted {
			found = 0
			if _, err := os.Stdout.Write(line); err != nil {
				return 2
			}
		}
	}
	return found
}

// end takes the first line of endings, if there is one.
func end() (code int, ok bool) {
	b, err := os.ReadFile(endings)
	if err != nil {
		return 0, false
	}
	line, rest, _ := strings.Cut(string(b), "\n")
	code, err = strconv.Atoi(line)
	return code, err == nil && os.WriteFile(endings, []byte(rest), 0o644) == nil
}

func schtasks(args []string) int {
	err := os.MkdirAll(tasks, 0o755)
	i := slices.Index(args, "/tn")
	if err != nil || i < 0 || i+1 == len(args) {
		return 1
	}
	at := filepath.Join(tasks, args[i+1])
	if v, ok := matches(args, "/create /f /tn * /sc onstart /ru SYSTEM /rl highest /tr *"); ok {
		err = os.WriteFile(at, []byte(v[1]), 0o644)
	} else if _, ok := matches(args, "/run /tn *"); ok {
		if _, err = os.Stat(at); err == nil {
			err = os.WriteFile(at+".run", nil, 0o644)
		}
	} else if _, ok := matches(args, "/delete /f /tn *"); ok {
		err = os.Remove(at)
	} else {
		return 1
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ERROR:", err)
		return 1
	}
	return 0
}
