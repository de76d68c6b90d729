package host

import (
	"context"
)

// RegistryReader observes the Windows registry. Machines without one answer ErrUnsupported.
type RegistryReader interface {
	// RegistryValue reads one value of a key written `HKLM\SOFTWARE\...`.
	// Machines without a registry answer ErrUnsupported.
	RegistryValue(ctx context.Context, key, name string) (RegistryValue, error)
	// RegistryNames returns the names of the keys and of the values directly below a key, each sorted. An empty
	// key has none; an absent one is fs.ErrNotExist.
	RegistryNames(ctx context.Context, key string) (keys, values []string, err error)
}

// Registry observes and changes the Windows registry.
type Registry interface {
	RegistryReader

	SetRegistryValue(ctx context.Context, key, name string, v RegistryValue) error
	// DeleteRegistryValue removes one value; absence is not an error. Its key stays.
	DeleteRegistryValue(ctx context.Context, key, name string) error
	// DeleteRegistryKey removes an empty key; absence is not an error. One with values or keys below it stays,
	// which is ErrBusy.
	DeleteRegistryKey(ctx context.Context, key string) error
}

// RegistryValue is one registry value. Exactly one of the data fields counts, by Type.
type RegistryValue struct {
	// string, expand_string, multi_string, dword, qword, binary
	Type    string   `json:"type" choices:"string,expand_string,multi_string,dword,qword,binary" present:"true"`
	String  string   `json:"string,omitempty" present:"true"`  // string, expand_string
	Strings []string `json:"strings,omitempty" present:"true"` // multi_string
	Number  uint64   `json:"number,omitempty" present:"true"`  // dword, qword
	Binary  []byte   `json:"binary,omitempty" present:"true"`  // binary
}

// CurrentControlSet is the key of the settings that Windows runs with, with a backslash at its end.
const CurrentControlSet = `HKLM\SYSTEM\CurrentControlSet\`
