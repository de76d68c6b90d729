package firstboot

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answerFile checks what Windows Setup runs of an answer file, and what is left of it then.
func answerFile(t *testing.T, text []byte) {
	t.Helper()
	var file struct {
		Run []struct {
			Order int
			Path  string
		} `xml:"settings>component>RunSynchronous>RunSynchronousCommand"`
	}
	if err := xml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	commands := []string{
		`certutil.exe -f -decode C:\Windows\Panther\unattend.xml C:\Windows\Temp\nodejoin.cmd`,
		// The script goes whatever it returns, which is 0 or 1. Where it fails, the command does, with a code that Setup
		// does not take for a reboot (WillReboot of RunSynchronousCommand).
		`cmd.exe /c "call C:\Windows\Temp\nodejoin.cmd & if errorlevel 1 (del C:\Windows\Temp\nodejoin.cmd & exit 3) ` +
			`else del C:\Windows\Temp\nodejoin.cmd"`,
	}
	for i, r := range file.Run {
		if len(file.Run) != len(commands) || r.Order != i+1 || r.Path != commands[i] {
			t.Errorf("command %d of %d is %+v", i+1, len(file.Run), r)
		}
		if strings.Contains(r.Path, "%") {
			t.Errorf("Setup replaces variables in %s", r.Path)
		}
	}
	script, rest := pem.Decode(text) // as certutil -decode, it skips what is before
	if script == nil || script.Type != "CERTIFICATE" || string(rest) != "  </Extensions>\n</unattend>\n" {
		t.Fatalf("the script is %+v, after it is\n%s", script, rest)
	}
	sameScript(t, string(script.Bytes))

	// forget.cmd leaves no line of the script.
	var left []byte
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte(mark())) {
			left = append(left, line...)
		}
	}
	const begin, end = "-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n"
	before, _, _ := strings.Cut(string(text), begin)
	if diff := cmp.Diff(before+begin+end+string(rest), string(left)); diff != "" {
		t.Errorf("what is left of the file:\n%s", diff)
	}
	inSchema(t, "autounattend", inJSON(t, left))

	// The schema refuses what Setup does not take.
	for from, to := range map[string]string{"C:\\Windows\\Panther\\": strings.Repeat("x", 259), "<Order>1": "<Order>0",
		`="add"`: `="append"`, `wcm="http://`: `wcm="https://`, "<Path>certutil": "<Run/><Path>certutil",
		`pass="specialize"`: `pass="oobeSystem"`, "neutral": "en-US"} {
		wrong := strings.Replace(string(text), from, to, 1)
		if err := validate(t, "autounattend", inJSON(t, []byte(wrong))); err == nil || wrong == string(text) {
			t.Errorf("the schema takes %s for %s", to, from)
		}
	}
}

// sameScript: the script of an answer file is that of cloudbase-init, which only starts its task, too, with forget.cmd
// in it, which goes first. Each line has the mark.
func sameScript(t *testing.T, marked string) {
	t.Helper()
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSuffix(marked, "\r\n"), "\r\n") {
		command, ok := strings.CutPrefix(line, lineMark+" ")
		if !ok {
			t.Fatalf("a line without the mark: %s", line)
		}
		lines = append(lines, strings.TrimLeft(command, " "))
		if strings.Contains(command, "if errorlevel") || strings.Contains(command, "if not errorlevel") {
			t.Errorf("a program that dies has a negative exit code, for which this does not ask: %s", command)
		}
	}
	const failed = "if %errorlevel% neq 0 echo This machine does not join.>>%dir%.log & rmdir /s /q %dir% & exit /b 1"
	const folder = "if not exist %dir% mkdir %dir%"
	first, run := slices.Index(lines, folder)+1, slices.Index(lines, `call %dir%\forget.cmd`)
	if first == 0 || run < first || lines[run+1] != failed {
		t.Fatalf("forget.cmd does not run first, or its failure does not end the script:\n%s", marked)
	}
	for _, line := range lines[first:run] {
		if !strings.Contains(line, `>%dir%\forget.cmd echo `) {
			t.Errorf("it goes before forget.cmd: %s", line)
		}
	}
	u, _ := sample(t)
	script, err := u.render(formats["cloudbase-init"])
	if err != nil {
		t.Fatal(err)
	}
	have := "rem cmd\n" + strings.Join(slices.Delete(lines, first, run+2), "\n") +
		"\nschtasks.exe /run /tn nodejoin-first-boot\n"
	if diff := cmp.Diff(string(script), have); diff != "" {
		t.Errorf("the script (- of cloudbase-init):\n%s", diff)
	}
}

// inJSON writes XML in JSON, for a schema: an element is an object with its attributes (@name), its elements, in lists
// by their names, and its text (#text) if it has no elements.
func inJSON(t *testing.T, text []byte) []byte {
	t.Helper()
	type node = map[string]any
	name := func(n xml.Name) string {
		switch n.Space {
		case "", "urn:schemas-microsoft-com:unattend":
			return n.Local
		case "http://schemas.microsoft.com/WMIConfig/2002/State":
			return "wcm:" + n.Local
		}
		return n.Space + " " + n.Local
	}
	stack, texts := []node{{}}, []string{""}
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		top := len(stack) - 1
		switch token := token.(type) {
		case xml.StartElement:
			n := node{}
			for _, a := range token.Attr {
				if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
					n["@"+name(a.Name)] = a.Value
				}
			}
			list, _ := stack[top][name(token.Name)].([]any)
			stack[top][name(token.Name)] = append(list, n)
			stack, texts = append(stack, n), append(texts, "")
		case xml.CharData:
			texts[top] += string(token)
		case xml.EndElement:
			if s := strings.TrimSpace(texts[top]); s != "" || len(stack[top]) == 0 {
				stack[top]["#text"] = s
			}
			stack, texts = stack[:top], texts[:top]
		}
	}
	out, err := json.Marshal(stack[0])
	if err != nil {
		t.Fatal(err)
	}
	return out
}
