package firstboot

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"nodejoin/plan"
)

var update = flag.Bool("update", false, "write testdata/NAME.EXT")

// sample is what the goldens are made of.
func sample(t *testing.T) (userData, *File) {
	t.Helper()
	f := &File{Version: 1, Node: "n-1", Expires: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Bundle: Fetched{"https://files.example/join/prod.tar", strings.Repeat("ab", 32)},
		Server: "https://10.0.0.10:6443", CA: "-----BEGIN CERTIFICATE-----\n...\n",
		Token:   "abcdef.-----BEGIN CERTIFICATE-----\n...\n-----BEGIN EC PRIVATE KEY-----\n...\n",
		Account: "e30.e30.e30"}
	b, err := f.text()
	if err != nil {
		t.Fatal(err)
	}
	return userData{Node: "n-1", Arch: "amd64", Join: b,
		Program: Fetched{"https://files.example/join/nodejoin", strings.Repeat("cd", 32)}}, f
}

// TestFormats: the user data of each format is what it was, and has the form that its program documents.
func TestFormats(t *testing.T) {
	if len(formatNames) != len(formats) {
		t.Errorf("%d names for %d formats", len(formatNames), len(formats))
	}
	u, _ := sample(t)
	for _, name := range formatNames {
		f := formats[name]
		have, err := u.render(f)
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+"."+f.ext)
		if *update {
			if err := os.WriteFile(golden, have, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(have)); diff != "" {
			t.Errorf("%s (-update writes it):\n%s", golden, diff)
		}
		if i := bytes.IndexFunc(have, func(r rune) bool { return r > 126 || r < ' ' && r != '\n' }); i >= 0 {
			t.Errorf("%s: byte %d is not printable ASCII", name, i)
		}
		if len(have) > limitEC2/2 && name != "autounattend" { // that is a file of Windows, not of a cloud
			t.Errorf("%s has %d bytes before any value", name, len(have))
		}
		t.Run(name, func(t *testing.T) { documented(t, name, have) })
	}
}

// documented checks the form by the schema of the format, or as its documentation says.
func documented(t *testing.T, name string, text []byte) {
	t.Helper()
	switch name {
	case "cloudbase-init": // the first line says what it is (cloudbase-init.readthedocs.io, "Userdata")
		if !bytes.HasPrefix(text, []byte("rem cmd\n")) {
			t.Errorf("the first line is %q", bytes.SplitN(text, []byte("\n"), 2)[0])
		}
		// 1001 to 1003 have it reboot the machine, or run the script again.
		if code := regexp.MustCompile(`exit /b [^01%]`).Find(text); code != nil {
			t.Errorf("an exit code that it acts on: %s", code)
		}
		return
	case "autounattend":
		answerFile(t, text)
		inSchema(t, name, inJSON(t, text))
		return
	case "cloud-init":
		if !bytes.HasPrefix(text, []byte("#cloud-config\n")) {
			t.Errorf("the first line is %q", bytes.SplitN(text, []byte("\n"), 2)[0])
		}
	}
	value, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		t.Fatal(err)
	}
	inSchema(t, name, value)
}

// inSchema checks a text in JSON by the schema of a format.
func inSchema(t *testing.T, format string, text []byte) {
	t.Helper()
	if err := validate(t, format, text); err != nil {
		t.Error(err)
	}
}

// validate is the error of the schema of a format for a text in JSON.
func validate(t *testing.T, format string, text []byte) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := jsonschema.NewCompiler().Compile(filepath.Join("testdata", "schema", format+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

// TestPlaces: the same place on the machine as over the network.
func TestPlaces(t *testing.T) {
	for from, want := range map[string]string{"https://files.example/join/": "https://files.example/join/p.tar",
		"/opt/join": "/opt/join/p.tar", `D:\join`: `D:\join\p.tar`, "D:/join/": `D:/join\p.tar`} {
		if err := place(from); err != nil {
			t.Error(err)
		}
		if have := join(from, "p.tar"); have != want {
			t.Errorf("%s: %s, want %s", from, have, want)
		}
	}
	for _, from := range []string{"join", "ftp://files.example", "https://user@files.example/join",
		"https://files.example/?a", "https://files.example/it's", "/opt/$(id)", "/opt/a\nb"} {
		if err := place(from); err == nil {
			t.Errorf("%q is taken", from)
		}
	}
}

// TestScript: the script that cloud-init runs does not run a program with another digest, removes what is secret
// whatever happens, and goes on after a boot.
func TestScript(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		name, program string
		digest        bool // that of the program
		code          int
		stays, reboot bool
	}{
		{"joined", "exit 0", true, 0, false, false},
		{"failed", "exit 5", true, 5, false, false},
		{"another program", "touch ran", false, 1, false, false},
		{"reboot", "exit 6", true, 0, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			program := []byte("#!/bin/sh\n[ \"$*\" = 'first-boot join.json' ] && [ -f join.json ] || exit 99\n" +
				c.program + "\n")
			from := filepath.Join(dir, "site")
			if err := os.WriteFile(from, program, 0o600); err != nil {
				t.Fatal(err)
			}
			u, _ := sample(t)
			u.Program.From = from
			if c.digest {
				if u.Program.SHA256, err = digest(from); err != nil {
					t.Fatal(err)
				}
			}
			text, err := u.render(format{template: "join.sh.tmpl"})
			if err != nil {
				t.Fatal(err)
			}
			work, perBoot := filepath.Join(dir, "work"), filepath.Join(dir, "per-boot")
			script := strings.NewReplacer(linuxFolder, work, u.PerBoot(), perBoot).Replace(string(text))
			for name, content := range map[string]string{perBoot: script, filepath.Join(work, "join.json"): "{}",
				filepath.Join(dir, "bin", "shutdown"): "#!/bin/sh\ntouch " + dir + "/rebooted\n"} {
				if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(content), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), sh, perBoot)
			cmd.Env = []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")}
			out, _ := cmd.CombinedOutput() // the exit code says it
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d\n%s", code, c.code, out)
			}
			for _, name := range []string{work, perBoot} {
				if _, err := os.Stat(name); (err == nil) != c.stays {
					t.Errorf("%s: %v", name, err)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "rebooted")); (err == nil) != c.reboot {
				t.Errorf("rebooted: %v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
				t.Error("the other program ran")
			}
		})
	}
}

// TestSecretsStandOnce: the tokens stand in the user data in one place, which is encoded.
func TestSecretsStandOnce(t *testing.T) {
	u, f := sample(t)
	for _, name := range formatNames {
		text, err := u.render(formats[name])
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte(f.Token)) || bytes.Contains(text, []byte(f.Account)) {
			t.Errorf("%s has a token as it is", name)
		}
		if script, _ := pem.Decode(text); script != nil { // of an answer file
			text = script.Bytes
		}
		if n := bytes.Count(text, []byte(base64.StdEncoding.EncodeToString(u.Join))); n != 1 {
			t.Errorf("%s has the file %d times", name, n)
		}
	}
}

// TestRead: what is not the file of a first boot is an error that shows nothing of it.
func TestRead(t *testing.T) {
	_, f := sample(t)
	whole, err := f.text()
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), "join.b64")
	if err := os.WriteFile(at, []byte(strings.ReplaceAll(inLines(base64.StdEncoding.EncodeToString(whole), 76), "\n",
		"\r\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if have, err := Read(at); err != nil || !cmp.Equal(f, have) {
		t.Errorf("in Base64: %v\n%s", err, cmp.Diff(f, have))
	}
	incomplete := *f
	incomplete.Token = ""
	missing, _ := incomplete.text()
	other, _ := json.Marshal(map[string]any{"version": 2, "token": f.Token})
	wrong, _ := json.Marshal(map[string]any{"version": "s3cret"})
	for want, text := range map[string][]byte{"cut or changed": whole[:len(whole)-40], "not complete": missing,
		"version 2": other, "another type": wrong} {
		at := filepath.Join(t.TempDir(), "join.json")
		if err := os.WriteFile(at, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Read(at)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		} else if strings.Contains(err.Error(), f.Token) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error has a secret: %v", err)
		}
	}
}

// TestFits: one program for the platform of each machine.
func TestFits(t *testing.T) {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "GOARCH", Value: "amd64"},
		{Key: "GOOS", Value: "windows"}}}
	w := plan.Node{Name: "w", OS: "windows", Arch: "amd64"}
	if err := fits("nodejoin.exe", info, []plan.Node{w, w}); err != nil {
		t.Error(err)
	}
	a := plan.Node{Name: "a", OS: "windows", Arch: "arm64"}
	if err := fits("nodejoin.exe", info, []plan.Node{w, a}); err == nil || !strings.Contains(err.Error(),
		"nodejoin.exe is for windows/amd64, and a has windows/arm64") {
		t.Error(err)
	}
}

// TestTooLargeForFormat: user data that no machine of the format takes is not written. What only some clouds take is,
// and names those that do not, but not for an answer file, which goes to no cloud.
func TestTooLargeForFormat(t *testing.T) {
	for _, name := range []string{"ec2launch", "cloud-init"} {
		form, out := formats[name], filepath.Join(t.TempDir(), "user-data")
		x := &command{format: name, out: out, App: App{Notice: func(s string) { t.Errorf("%s: %s", name, s) }}}
		_, f := sample(t)
		f.Values = map[string]string{"long": strings.Repeat("x", form.limit)}
		err := x.one(*f, plan.Node{Name: "n-1", OS: form.os, Arch: "amd64"}, f.Bundle, false)
		if want := fmt.Sprintf("%s takes %d", name, form.limit); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it is written all the same (%v)", name, err)
		}
	}
	for name, want := range map[string]bool{"cloudbase-init": true, "autounattend": false} {
		noticed := false
		x := &command{format: name, out: filepath.Join(t.TempDir(), "user-data"), App: App{Say: func(string, ...any) {},
			Notice: func(s string) { noticed = noticed || strings.Contains(s, "Too large for Amazon EC2") }}}
		_, f := sample(t)
		f.Values = map[string]string{"long": strings.Repeat("x", limitEC2)}
		if err := x.one(*f, plan.Node{Name: "n-1", OS: "windows", Arch: "amd64"}, f.Bundle, false); err != nil {
			t.Error(err)
		}
		if noticed != want {
			t.Errorf("%s: says that it is too large for Amazon EC2: %v, want %v", name, noticed, want)
		}
	}
}

// TestTooLarge: the limits of the clouds.
func TestTooLarge(t *testing.T) {
	const ec2, openStack = "Amazon EC2 (16384 bytes)", ", OpenStack (49149 bytes)"
	const azure, gcp = ", Azure (65535 bytes)", ", Google Cloud (262144 bytes)"
	for size, want := range map[int]string{16384: "", 16385: ec2, 49149: ec2, 49150: ec2 + openStack,
		65535: ec2 + openStack, 65536: ec2 + openStack + azure, 262144: ec2 + openStack + azure,
		262145: ec2 + openStack + azure + gcp} {
		if have := tooLarge(size); have != want {
			t.Errorf("%d: %q, want %q", size, have, want)
		}
		encoded := base64.StdEncoding.EncodedLen(size)
		if refused := strings.Contains(want, "OpenStack"); refused != (encoded > 65535) {
			t.Errorf("%d bytes are %d of Base64, and OpenStack refuses them: %v", size, encoded, refused)
		}
	}
}
