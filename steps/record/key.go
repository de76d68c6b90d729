package record

import (
	"cmp"
	"encoding"
	"fmt"
	"strings"
)

// Prefix is the first part of a Key. It says what sort of thing is claimed; the kinds
// declare how each is undone (steps.Kind.Undo).
type Prefix string

// The prefixes that more than one kind or package uses, or that have a key of their own form below. Those of one
// kind stand in its file.
const (
	Service      Prefix = "service"
	HNSNetwork   Prefix = "hns_network"
	Interface    Prefix = "interface"
	Chains       Prefix = "chains"
	FilterTable  Prefix = "filter_table"
	Routes       Prefix = "routes"
	Namespaces   Prefix = "netns"
	FirewallRule Prefix = "firewall_rule"
	Registry     Prefix = "registry"
	RegistryKey  Prefix = "registry_key"
	Env          Prefix = "env"
	EnvFile      Prefix = "env_file"
	ProgramData  Prefix = "made" // a file or folder that a program makes
	Backup       Prefix = "backup"
	File         Prefix = "file"
	Directory    Prefix = "directory"
)

// Key names one thing on a machine. Its text form, "prefix:name", is that of
// record.json, of events and of JSON output; only this file takes it apart.
type Key struct {
	Prefix Prefix
	Name   string // may hold colons, as a path of Windows does
}

var (
	_ encoding.TextMarshaler   = Key{}
	_ encoding.TextUnmarshaler = (*Key)(nil)
)

// Of is the key with this name.
func (p Prefix) Of(name string) Key { return Key{p, name} }

// ParseKey parses the text form of a key.
func ParseKey(text string) (Key, error) {
	prefix, name, ok := strings.Cut(text, ":")
	if !ok || prefix == "" {
		return Key{}, fmt.Errorf("%q is not the key of a claim", text)
	}
	return Key{Prefix(prefix), name}, nil
}

func (k Key) String() string { return string(k.Prefix) + ":" + k.Name }

// MarshalText returns the text form.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText parses the text form.
func (k *Key) UnmarshalText(text []byte) (err error) {
	*k, err = ParseKey(string(text))
	return err
}

// EnvKey is the key of an environment variable; file is "" where the system itself
// keeps variables (Windows).
func EnvKey(file, variable string) Key {
	if file == "" {
		return Env.Of(variable)
	}
	return Env.Of(file + ":" + variable)
}

// EnvPath is the file of an EnvKey of this variable; "" = none.
func (k Key) EnvPath(variable string) string {
	file, ok := strings.CutSuffix(k.Name, ":"+variable)
	if !ok {
		return ""
	}
	return file
}

// RegistryValueKey is the key of a value of the registry.
func RegistryValueKey(key, value string) Key { return Registry.Of(key + `\` + value) }

// RegistryPath is the registry key of a RegistryValueKey with this value name.
func (k Key) RegistryPath(value string) string { return strings.TrimSuffix(k.Name, `\`+value) }

// compare orders keys by their place in a sequence.
func compare(p int, a Key, q int, b Key) int {
	return cmp.Or(cmp.Compare(p, q), cmp.Compare(a.Prefix, b.Prefix), strings.Compare(a.Name, b.Name))
}
