package firstboot

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"
)

//go:embed *.tmpl
var templates embed.FS

// format is user data for one program that sets machines up.
type format struct {
	os       string // of the machines
	ext      string // of its files
	template string
	limit    int // bytes that the clouds take where this program runs
	needsURL bool
}

// formats by name. Sources of what each takes:
//   - cloud-init: docs.cloud-init.io, modules write_files and scripts_per_boot
//   - cloudbase-init: cloudbase-init.readthedocs.io, "Userdata", Batch
//   - ec2launch: Amazon EC2 user guide, "EC2Launch v2 task definitions", executeScript
//   - autounattend: Microsoft's Unattended Windows Setup Reference, RunSynchronousCommand
//   - ignition: coreos.github.io/ignition, "Configuration Specification v3.4.0"
var formats = map[string]format{
	"cloud-init":     {os: "linux", ext: "yaml", template: "cloud-init.tmpl", limit: limitGCP},
	"cloudbase-init": {os: "windows", ext: "cmd", template: "cloudbase-init.tmpl", limit: limitGCP},
	"ec2launch":      {os: "windows", ext: "yaml", template: "ec2launch.tmpl", limit: limitEC2},
	"autounattend":   {os: "windows", ext: "xml", template: "autounattend.tmpl", limit: limitGCP},
	"ignition":       {os: "linux", ext: "ign", template: "ignition.tmpl", limit: limitGCP, needsURL: true},
}

// formatNames are in the order of help.
var formatNames = []string{"cloud-init", "cloudbase-init", "ec2launch", "autounattend", "ignition"}

// Limits of user data in bytes, before clouds encode it: Amazon EC2 user guide, "Run commands when you launch an EC2
// instance"; Azure REST API, OSProfile.customData; Google Cloud documentation, "About VM metadata". OpenStack takes
// 65,535 bytes of Base64, which has 4 for each 3 (nova, nova/api/openstack/compute/schemas/servers.py, user_data).
const (
	limitEC2       = 16 << 10
	limitOpenStack = 65535 / 4 * 3
	limitAzure     = 65535
	limitGCP       = 256 << 10
)

// Folders of a first boot on the machine. Only the system and administrators read them.
const (
	linuxFolder   = "/var/lib/nodejoin-first-boot"
	windowsFolder = `C:\ProgramData\nodejoin-first-boot`
)

// userData fills the templates.
type userData struct {
	Node, Arch string
	Join       []byte // the File
	Program    Fetched
	Answers    bool // an answer file of Windows Setup, of which Windows has copies
}

// Folder is that of the machine.
func (u userData) Folder(os string) string {
	if os == "windows" {
		return windowsFolder
	}
	return linuxFolder
}

// PerBoot is where cloud-init has the scripts that it runs at each boot.
func (u userData) PerBoot() string { return "/var/lib/cloud/scripts/per-boot/nodejoin-first-boot" }

// FromURL reports whether the machine fetches nodejoin over the network.
func (u userData) FromURL() bool { return isURL(u.Program.From) }

// render is the user data in a format.
func (u userData) render(f format) ([]byte, error) {
	u.Answers = f.answers()
	var t *template.Template
	include := func(name string) (string, error) {
		var out bytes.Buffer
		err := t.ExecuteTemplate(&out, name, u)
		return strings.TrimRight(out.String(), "\n"), err
	}
	t, err := template.New("").Funcs(template.FuncMap{
		"base64":  func(v any) string { return base64.StdEncoding.EncodeToString(fmt.Append(nil, text(v))) },
		"include": include,
		"indent": func(n int, s string) string {
			return strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", n))
		},
		"lines":  func(b []byte) string { return inLines(base64.StdEncoding.EncodeToString(b), 1000) },
		"echo":   echo,
		"mark":   mark,
		"marked": marked,
	}).ParseFS(templates, "*.tmpl")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.ExecuteTemplate(&out, f.template, u)
	return out.Bytes(), err
}

// inLines is a text in lines with at most so many characters.
func inLines(s string, most int) string {
	var out []string
	for part := range slices.Chunk([]byte(s), most) {
		out = append(out, string(part))
	}
	return strings.Join(out, "\n")
}

// echo are commands for cmd.exe that write a text to a file of the folder %dir%. Lines must not be empty.
func echo(file, text string) string {
	var out []string
	redirect := ">"
	for line := range strings.SplitSeq(text, "\n") {
		out = append(out, redirect+`%dir%\`+file+" echo "+escaped(line))
		redirect = ">>"
	}
	return strings.Join(out, "\n")
}

// escaped is a text for echo in a file of cmd.exe: in quotation marks percent signs are special, elsewhere others too.
func escaped(line string) string {
	var out strings.Builder
	quoted := false
	for _, c := range line {
		switch {
		case c == '%':
			out.WriteRune('%')
		case c == '"':
			quoted = !quoted
		case !quoted && strings.ContainsRune("&|<>^()", c):
			out.WriteRune('^')
		}
		out.WriteRune(c)
	}
	return out.String()
}

func text(v any) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(v)
}

// join is a file in the folder of --from.
func join(from, name string) string {
	if isURL(from) || !isWindowsPath(from) {
		return strings.TrimRight(from, "/") + "/" + name
	}
	return strings.TrimRight(from, `\/`) + `\` + name
}

// tooLarge says which clouds do not take so many bytes; "" = all take them.
func tooLarge(size int) string {
	var who []string
	for _, c := range []struct {
		name  string
		bytes int
	}{{"Amazon EC2", limitEC2}, {"OpenStack", limitOpenStack}, {"Azure", limitAzure}, {"Google Cloud", limitGCP}} {
		if size > c.bytes {
			who = append(who, fmt.Sprintf("%s (%d bytes)", c.name, c.bytes))
		}
	}
	return strings.Join(who, ", ")
}

// answers reports whether it is an answer file of Windows Setup, which goes to no cloud.
func (f format) answers() bool { return f.template == "autounattend.tmpl" }

// fileName is the name of a node's user data in a folder.
func (f format) fileName(node string) string { return path.Base(node) + "." + f.ext }
