package acceptance_test

import (
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
	"regexp"
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

// answersOf are the files that Windows may have, where Setup searches and where it has its copies: as it processes
// them, and as they were.
func answersOf(unattend, original string) map[string]string {
	return map[string]string{
		panther + `\unattend.xml`:                  unattend,
		panther + `\unattend-original.xml`:         original,
		panther + `\autounattend.xml`:              original,
		panther + `\unattend\unattend.xml`:         original,
		`C:\windows\system32\sysprep\unattend.xml`: unattend,
		`C:\unattend.xml`:                          original,
	}
}

// putAnswers puts answer files there, read-only, as those are that come from a DVD.
func (b *bed) putAnswers(files map[string]string) {
	b.t.Helper()
	for name, text := range files {
		at := b.host.Path(name)
		if err := os.Remove(at); err != nil && !os.IsNotExist(err) {
			b.t.Fatal(err)
		}
		err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o400))
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// wantAnswers checks that the answer files of the machine are these, with nothing beside them.
func (b *bed) wantAnswers(files map[string]string) {
	b.t.Helper()
	for name, want := range files {
		if have := string(b.read(name)); have != want {
			b.t.Errorf("%s is\n%s\nwant\n%s", name, have, want)
		}
		if _, err := os.Stat(b.host.Path(name + ".new")); !os.IsNotExist(err) {
			b.t.Errorf("%s.new is left (%v)", name, err)
		}
	}
}

// forgotten checks that the answer files of the machine are these without the script, and that no secret of it is
// there or in the folder for temporary files.
func (b *bed) forgotten(a *answerFile, unattend, original string) {
	b.t.Helper()
	unattend, original = without(unattend), without(original)
	for _, text := range []string{unattend, original} {
		var file struct {
			Owners []string `xml:"settings>component>RegisteredOwner"`
		}
		if err := xml.Unmarshal([]byte(text), &file); err != nil || len(file.Owners) != 2 {
			b.t.Errorf("%v: %v", file.Owners, err)
		}
	}
	b.wantAnswers(answersOf(unattend, original))
	for _, dir := range []string{panther, windowsTemp} {
		for _, secret := range a.secrets {
			if err := withoutText(b.host.Path(dir), secret); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

// said takes the log of the first boot away, which must have these lines and no others.
func (b *bed) said(lines ...string) {
	b.t.Helper()
	at := b.host.Path(firstBootLog)
	log, err := os.ReadFile(at)
	if err == nil {
		err = os.Remove(at)
	}
	var have []string
	for line := range strings.Lines(strings.ToLower(string(log))) {
		have = append(have, strings.TrimSpace(line))
	}
	want := strings.Split(strings.ToLower(strings.Join(lines, "\n")), "\n")
	slices.Sort(have)
	slices.Sort(want)
	if err != nil && !os.IsNotExist(err) || strings.Join(have, "\n") != strings.Join(want, "\n") {
		b.t.Errorf("%s has %q, want %q (%v)", firstBootLog, have, want, err)
	}
}

// variants are the copies of an answer file: Setup writes its own again; the original may be of any editor.
func (a *answerFile) variants() (unattend, original string) {
	_, elements, _ := strings.Cut(a.text, "\n")
	return "<?xml version='1.0' encoding='utf-8'?>\n" + elements, "\ufeff" + strings.ReplaceAll(a.text, "\n", "\r\n")
}

// notStarted is the exit code of a program that Windows could not start (STATUS_DLL_INIT_FAILED).
const notStarted = "-1073741502\n"

// endFindstr ends the next starts of findstr.exe, by lines with exit codes.
func (b *bed) endFindstr(codes string) {
	b.t.Helper()
	if err := os.WriteFile(b.host.Path(`C:\windows\findstr-endings`), []byte(codes), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// setupFails runs the commands of the answer file as Windows Setup does, where they cannot make the task.
func (b *bed) setupFails(ctx context.Context, a *answerFile) {
	b.t.Helper()
	const noJoin, tokens = "This machine does not join.", " may still have tokens. Delete it."
	unattend, original := a.variants()

	made := b.host.Path(firstBootTask)
	if err := os.MkdirAll(made, 0o755); err != nil {
		b.t.Fatal(err)
	}
	b.setup(ctx, a, answersOf(unattend, original), 0, 3)
	b.forgotten(a, unattend, original)
	b.said("The task cannot be made.")
	if err := os.Remove(made); err != nil {
		b.t.Fatal(err)
	}

	// A file in UTF-16 cannot be changed.
	wide := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(a.text)) {
		wide = binary.LittleEndian.AppendUint16(wide, u)
	}
	files, left := answersOf(unattend, original), answersOf(without(unattend), without(original))
	files[panther+`\unattend.xml`], left[panther+`\unattend.xml`] = string(wide), string(wide)
	b.setup(ctx, a, files, 0, 3)
	b.wantAnswers(left)
	b.said(panther+`\unattend.xml`+tokens, noJoin)

	// findstr.exe never starts.
	files = answersOf(unattend, original)
	b.endFindstr(strings.Repeat(notStarted, 100))
	b.setup(ctx, a, files, 0, 3)
	b.endFindstr("")
	b.wantAnswers(files)
	said := []string{noJoin}
	for name := range files {
		said = append(said, name+tokens)
	}
	b.said(said...)

	// No part of a file replaces it: first findstr.exe does not start when it takes lines out; then it writes nothing.
	b.endFindstr("0\n" + notStarted + "0\n0\n0\n0\n")
	b.setup(ctx, a, files, 0, 3)
	left[panther+`\unattend.xml`] = unattend
	b.wantAnswers(left)
	b.said(panther+`\unattend.xml`+tokens, noJoin)
	if _, err := os.Stat(made); !os.IsNotExist(err) {
		b.t.Errorf("a task is made (%v)", err)
	}

	// Commands that run again have nothing to do, and fail.
	b.setup(ctx, a, answersOf(without(unattend), without(original)), anyFailure, 3)
	b.forgotten(a, unattend, original)
	b.said()
}

// asSetup runs the commands of the answer file as Windows Setup does. It returns the task that they make, which is not
// started, and what takes the tokens out of copies.
func (b *bed) asSetup(ctx context.Context, a *answerFile) (task, forget []byte) {
	b.t.Helper()
	unattend, original := a.variants()
	b.endFindstr(notStarted) // once
	b.setup(ctx, a, answersOf(unattend, original), 0, 0)
	b.forgotten(a, unattend, original)
	b.said()
	_, started := os.Stat(b.host.Path(firstBootTask + ".run"))
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
	return task, forget
}

// anyFailure is an exit code that is not 0.
const anyFailure = -1

// unstarted is what Wine says, under load, of a program that it does not start. forget.cmd runs findstr.exe again, and
// here needs no attrib.exe.
var unstarted = regexp.MustCompile(`Can't recognize '(findstr|attrib)\.exe`)

// setup runs the commands of an answer file in their order, over these files, and checks their exit codes. The script
// is gone then, and where they fail, the folder of the first boot, too.
func (b *bed) setup(ctx context.Context, a *answerFile, files map[string]string, decodes, runs int) {
	b.t.Helper()
	b.putAnswers(files)
	var have []int
	var all strings.Builder
	for _, path := range a.paths {
		code, out := b.runPath(ctx, path)
		have = append(have, code)
		all.WriteString(out)
	}
	said := all.String()
	if decodes == anyFailure && have[0] != 0 {
		decodes = have[0]
	}
	if !slices.Equal(have, []int{decodes, runs}) {
		b.t.Fatalf("exit codes %d, want %d and %d\n%s", have, decodes, runs, said)
	}
	_, script := os.Stat(b.host.Path(answerScript))
	left, err := os.ReadDir(b.host.Path(firstBootDir))
	if !os.IsNotExist(script) || runs != 0 && len(left) > 0 {
		b.t.Fatalf("the script is left: %v; %s has %v (%v)", script, firstBootDir, left, err)
	}
	if unstarted.MatchString(said) {
		b.t.Logf("Wine did not start a program:\n%s", said)
		said = unstarted.ReplaceAllString(said, "")
	}
	// No exit code of cmd.exe says so. Where there is no script, it cannot run.
	if strings.Contains(said, "Syntax error") || strings.Contains(said, "recognize") && decodes == 0 {
		b.t.Errorf("%s", said)
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
