package acceptance_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"encoding/xml"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf16"
)

// Files of an answer file on the machine.
const (
	panther      = `C:\windows\panther` // where Windows has its copies
	windowsTemp  = `C:\windows\temp`
	answerScript = windowsTemp + `\nodejoin.cmd`
	forgetCmd    = firstBootDir + `\forget.cmd`
	pemBegin     = "-----BEGIN CERTIFICATE-----"
	pemEnd       = "-----END CERTIFICATE-----"
)

// ownSettings are what an administrator may have in an answer file besides. They hold what cmd.exe would change.
var ownSettings = `  <settings pass="oobeSystem">
    <component name="Microsoft-Windows-Shell-Setup" processorArchitecture="amd64"
      publicKeyToken="31bf3856ad364e35" language="neutral" versionScope="nonSxS">

      <RegisteredOwner>Käthe &amp; Söhne, 100% ^ ! "%TEMP%"</RegisteredOwner>
      <!--; ` + strings.Repeat("a long line ", 1000) + `-->
    </component>
  </settings>
`

// answerFile is an answer file of nodejoin, to which an administrator has added settings.
type answerFile struct {
	text    string
	paths   []string // of its commands
	secrets []string // as they are, and in Base64 once and twice
}

// answerFile reads an answer file, and adds settings before and after the script.
func (b *bed) answerFile(name string) *answerFile {
	b.t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		b.t.Fatal(err)
	}
	var file struct {
		Paths []string `xml:"settings>component>RunSynchronous>RunSynchronousCommand>Path"`
	}
	err = xml.Unmarshal(text, &file)
	block, _ := pem.Decode(text)
	if err != nil || len(file.Paths) != 2 || block == nil {
		b.t.Fatalf("%v\n%s", err, text)
	}
	both := strings.NewReplacer("  <Extensions", ownSettings+"  <Extensions", "</unattend>", ownSettings+"</unattend>")
	a := &answerFile{text: both.Replace(string(text)), paths: file.Paths}
	var encoded string
	for line := range strings.Lines(string(block.Bytes)) {
		if _, part, ok := strings.Cut(line, `join.b64 echo `); ok {
			encoded += strings.TrimSpace(part)
			a.secrets = append(a.secrets, strings.TrimSpace(part))
		}
	}
	join, err := base64.StdEncoding.DecodeString(encoded)
	var secret struct{ Token, Account string }
	err = errors.Join(err, json.Unmarshal(join, &secret))
	if err != nil || secret.Token == "" || secret.Account == "" {
		b.t.Fatalf("the answer file has no tokens: %v", err)
	}
	a.secrets = append(a.secrets, secret.Account)
	for line := range strings.Lines(secret.Token) { // of a certificate and its key
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") {
			a.secrets = append(a.secrets, line)
		}
	}
	_, body, _ := strings.Cut(a.text, pemBegin+"\n")
	body, _, _ = strings.Cut(body, pemEnd)
	for line := range strings.Lines(body) {
		a.secrets = append(a.secrets, strings.TrimSpace(line))
	}
	return a
}

// without is a copy of an answer file without its script.
func without(text string) string {
	before, rest, _ := strings.Cut(text, pemBegin)
	_, after, _ := strings.Cut(rest, pemEnd)
	end := "\n"
	if strings.HasPrefix(after, "\r") {
		end = "\r\n"
	}
	return before + pemBegin + end + pemEnd + after
}

// copies puts the answer file where Windows does: as it processes it, and as it was.
func (b *bed) copies(unattend, original string) {
	b.t.Helper()
	for name, text := range map[string]string{"unattend.xml": unattend, "unattend-original.xml": original} {
		at := b.host.Path(panther + `\` + name)
		err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600))
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// forgotten checks that Windows' copies of an answer file are these without the script, and that no secret of it is
// there or in the folder for temporary files.
func (b *bed) forgotten(a *answerFile, unattend, original string) {
	b.t.Helper()
	found, err := os.ReadDir(b.host.Path(panther))
	if err != nil || len(found) != 2 {
		b.t.Errorf("%s has %v (%v)", panther, found, err)
	}
	for name, text := range map[string]string{"unattend.xml": unattend, "unattend-original.xml": original} {
		have, want := b.read(panther+`\`+name), without(text)
		if string(have) != want {
			b.t.Errorf("%s is\n%s\nwant\n%s", name, have, want)
		}
		var file struct {
			Owners []string `xml:"settings>component>RegisteredOwner"`
		}
		if err := xml.Unmarshal(have, &file); err != nil || len(file.Owners) != 2 {
			b.t.Errorf("%s: %v: %v", name, file.Owners, err)
		}
	}
	for _, dir := range []string{panther, windowsTemp} {
		for _, secret := range a.secrets {
			if err := withoutText(b.host.Path(dir), secret); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

// asSetup runs the commands of the answer file as Windows Setup does. It returns the task that they make, which is not
// started, and what takes the tokens out of copies.
func (b *bed) asSetup(ctx context.Context, a *answerFile) (task, forget []byte) {
	b.t.Helper()
	made := b.host.Path(firstBootTask)
	// Setup writes its copy again; the original may be of any editor.
	_, elements, _ := strings.Cut(a.text, "\n")
	unattend := "<?xml version='1.0' encoding='utf-8'?>\n" + elements
	original := "\ufeff" + strings.ReplaceAll(a.text, "\n", "\r\n")

	// No task can be made.
	if err := os.MkdirAll(made, 0o755); err != nil {
		b.t.Fatal(err)
	}
	b.setup(ctx, a, unattend, original, 0, 3)
	b.forgotten(a, unattend, original)
	if err := os.Remove(made); err != nil {
		b.t.Fatal(err)
	}

	// A copy in UTF-16 cannot be changed: no task.
	wide := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(a.text)) {
		wide = binary.LittleEndian.AppendUint16(wide, u)
	}
	b.setup(ctx, a, unattend, string(wide), 0, 3)
	_, err := os.Stat(made)
	if !os.IsNotExist(err) || string(b.read(panther+`\unattend.xml`)) != without(unattend) ||
		!bytes.Equal(b.read(panther+`\unattend-original.xml`), wide) {
		b.t.Errorf("after a copy in UTF-16: the task: %v", err)
	}

	b.setup(ctx, a, unattend, original, 0, 0)
	b.forgotten(a, unattend, original)
	_, started := os.Stat(made + ".run")
	if !os.IsNotExist(started) || len(b.read(firstBootDir+`\join.b64`)) == 0 ||
		string(b.read(firstBootTask)) != firstBootDir+`\run.cmd` {
		b.t.Errorf("the task is not made, or started: %v", started)
	}
	task, forget = b.read(firstBootDir+`\run.cmd`), b.read(forgetCmd)
	for _, made := range []string{firstBootDir, firstBootTask} {
		if err := os.RemoveAll(b.host.Path(made)); err != nil {
			b.t.Fatal(err)
		}
	}

	// Commands that run again have nothing to do, and fail.
	b.setup(ctx, a, without(unattend), without(original), 13, 3)
	b.forgotten(a, unattend, original)
	return task, forget
}

// tries bounds the runs of commands of which Wine does not start a program, as it happens under load.
const tries = 3

// setup runs the commands of an answer file in their order, over these copies, and checks their exit codes. The script
// is gone then, and where they fail, the folder of the first boot, too.
func (b *bed) setup(ctx context.Context, a *answerFile, unattend, original string, codes ...int) {
	b.t.Helper()
	for try := 1; ; try++ {
		b.copies(unattend, original)
		var have []int
		var said strings.Builder
		for _, path := range a.paths {
			code, out := b.runPath(ctx, path)
			have = append(have, code)
			said.WriteString(out)
		}
		_, script := os.Stat(b.host.Path(answerScript))
		left, err := os.ReadDir(b.host.Path(firstBootDir))
		if !os.IsNotExist(script) || have[1] != 0 && len(left) > 0 {
			b.t.Fatalf("the script is left: %v; %s has %v (%v)", script, firstBootDir, left, err)
		}
		// The script must see that, too.
		if strings.Contains(said.String(), "Can't recognize 'findstr.exe") && have[1] == 3 && try < tries {
			b.t.Logf("again, as Wine did not start findstr.exe:\n%s", said.String())
			continue
		}
		if !slices.Equal(have, codes) {
			b.t.Fatalf("exit codes %d, want %d\n%s", have, codes, said.String())
		}
		// No exit code of cmd.exe says so. Where there is no script, it cannot run.
		if s := said.String(); strings.Contains(s, "Syntax error") ||
			strings.Contains(s, "recognize") && codes[0] == 0 {
			b.t.Errorf("%s", s)
		}
		return
	}
}

// runPath runs a command as Windows Setup does, and returns its exit code and output.
func (b *bed) runPath(ctx context.Context, path string) (code int, out string) {
	b.t.Helper()
	argv := strings.Fields(path)
	if program, line, ok := strings.Cut(path, ` /c "`); ok {
		argv = []string{program, "/c", strings.TrimSuffix(line, `"`)}
	}
	// Else Wine gives the program another line than Setup does.
	if slices.ContainsFunc(argv, func(s string) bool { return strings.Contains(s, `"`) }) {
		b.t.Fatalf("the command is %s", path)
	}
	out, err := b.host.Run(ctx, argv...)
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return ended.ExitCode(), out
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return 0, out
}
