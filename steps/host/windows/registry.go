//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"

	"nodejoin/steps/host"
)

// roots are the keys that a path may begin with.
var roots = map[string]registry.Key{
	"HKLM": registry.LOCAL_MACHINE, "HKEY_LOCAL_MACHINE": registry.LOCAL_MACHINE,
	"HKCR": registry.CLASSES_ROOT, "HKEY_CLASSES_ROOT": registry.CLASSES_ROOT,
	"HKU": registry.USERS, "HKEY_USERS": registry.USERS,
	"HKCU": registry.CURRENT_USER, "HKEY_CURRENT_USER": registry.CURRENT_USER,
}

func splitKey(path string) (registry.Key, string, error) {
	name, rest, _ := strings.Cut(path, `\`)
	root, ok := roots[strings.ToUpper(name)]
	if !ok || rest == "" {
		return 0, "", fmt.Errorf(`the registry key %q does not begin with HKLM\, HKU\, HKCR\ or HKCU\`, path)
	}
	return root, rest, nil
}

// openKey opens a key in the 64-bit view.
func openKey(path string, rights uint32) (registry.Key, error) {
	root, rest, err := splitKey(path)
	if err != nil {
		return 0, err
	}
	return registry.OpenKey(root, rest, rights|registry.WOW64_64KEY)
}

// valueTypes names the registry's types as host.RegistryValue does.
var valueTypes = map[uint32]string{
	registry.SZ: "string", registry.EXPAND_SZ: "expand_string", registry.MULTI_SZ: "multi_string",
	registry.DWORD: "dword", registry.QWORD: "qword", registry.BINARY: "binary",
}

// RegistryValue reads one value, unexpanded. A value of a type that is not in
// host.RegistryValue's list comes as the type's number and raw bytes.
func (h *Host) RegistryValue(ctx context.Context, key, name string) (host.RegistryValue, error) {
	const op = "read registry value"
	subject := key + `\` + name
	if ctx.Err() != nil {
		return host.RegistryValue{}, failed(op, subject, context.Cause(ctx))
	}
	k, err := openKey(key, registry.QUERY_VALUE)
	if err != nil {
		return host.RegistryValue{}, failed(op, subject, err)
	}
	defer k.Close()
	v, err := readValue(k, name)
	return v, failed(op, subject, err)
}

func readValue(k registry.Key, name string) (v host.RegistryValue, err error) {
	size, kind, err := k.GetValue(name, nil)
	if err != nil {
		return v, err
	}
	v.Type = valueTypes[kind]
	switch kind {
	case registry.SZ, registry.EXPAND_SZ:
		v.String, _, err = k.GetStringValue(name)
	case registry.MULTI_SZ:
		v.Strings, _, err = k.GetStringsValue(name)
	case registry.DWORD, registry.QWORD:
		v.Number, _, err = k.GetIntegerValue(name)
	case registry.BINARY:
		v.Binary, _, err = k.GetBinaryValue(name)
	default:
		v.Type = fmt.Sprintf("type %d", kind)
		v.Binary = make([]byte, size)
		if size > 0 {
			_, _, err = k.GetValue(name, v.Binary)
		}
	}
	return v, err
}

// RegistryNames returns the names below a key.
func (h *Host) RegistryNames(ctx context.Context, key string) (keys, values []string, err error) {
	const op = "read registry key"
	if ctx.Err() != nil {
		return nil, nil, failed(op, key, context.Cause(ctx))
	}
	k, err := openKey(key, registry.QUERY_VALUE|registry.ENUMERATE_SUB_KEYS)
	if err != nil {
		return nil, nil, failed(op, key, err)
	}
	defer k.Close()
	keys, err1 := k.ReadSubKeyNames(-1)
	values, err2 := k.ReadValueNames(-1)
	slices.Sort(keys)
	slices.Sort(values)
	return keys, values, failed(op, key, errors.Join(err1, err2))
}

// SetRegistryValue writes one value and makes the missing keys on the way.
func (h *Host) SetRegistryValue(ctx context.Context, key, name string, v host.RegistryValue) error {
	const op = "set registry value"
	subject := key + `\` + name
	if ctx.Err() != nil {
		return failed(op, subject, context.Cause(ctx))
	}
	root, rest, err := splitKey(key)
	if err != nil {
		return failed(op, subject, err)
	}
	k, _, err := registry.CreateKey(root, rest, registry.SET_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return failed(op, subject, err)
	}
	defer k.Close()
	return failed(op, subject, writeValue(k, name, v))
}

func writeValue(k registry.Key, name string, v host.RegistryValue) error {
	switch v.Type {
	case "string":
		return k.SetStringValue(name, v.String)
	case "expand_string":
		return k.SetExpandStringValue(name, v.String)
	case "multi_string":
		return k.SetStringsValue(name, v.Strings)
	case "dword":
		if v.Number > math.MaxUint32 {
			return fmt.Errorf("%d does not fit a dword", v.Number)
		}
		return k.SetDWordValue(name, uint32(v.Number))
	case "qword":
		return k.SetQWordValue(name, v.Number)
	case "binary":
		return k.SetBinaryValue(name, v.Binary)
	}
	return fmt.Errorf("unknown registry type %q", v.Type)
}

// DeleteRegistryValue removes one value; an absent value or key is not an error.
func (h *Host) DeleteRegistryValue(ctx context.Context, key, name string) error {
	const op = "delete registry value"
	subject := key + `\` + name
	if ctx.Err() != nil {
		return failed(op, subject, context.Cause(ctx))
	}
	k, err := openKey(key, registry.SET_VALUE)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return failed(op, subject, err)
	}
	defer k.Close()
	if err := k.DeleteValue(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed(op, subject, err)
	}
	return nil
}

// DeleteRegistryKey removes a key that holds nothing.
func (h *Host) DeleteRegistryKey(ctx context.Context, key string) error {
	const op = "delete registry key"
	keys, values, err := h.RegistryNames(ctx, key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(keys)+len(values) > 0:
		return failed(op, key, host.ErrBusy)
	}
	root, rest, err := splitKey(key)
	if err == nil {
		err = registry.DeleteKey(root, rest)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return failed(op, key, err)
}

// environmentKey holds the machine's environment.
const environmentKey = `HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment`

// MachineEnv reads a variable of the machine's environment, references to others unexpanded.
func (h *Host) MachineEnv(ctx context.Context, name string) (string, error) {
	v, err := h.RegistryValue(ctx, environmentKey, name)
	if err == nil && v.Type != "string" && v.Type != "expand_string" {
		err = errors.New("the variable is not a string")
	}
	if err != nil {
		return "", envError("read environment", name, err)
	}
	return v.String, nil
}

// SetMachineEnv sets a variable and notifies the running programs. A value with references (%SystemRoot%) is
// kept in the type that expands them.
func (h *Host) SetMachineEnv(ctx context.Context, name, value string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
		return failed("set environment", name, fmt.Errorf("%w: not a variable that a machine can hold", fs.ErrInvalid))
	}
	v := host.RegistryValue{Type: "string", String: value}
	if strings.Contains(value, "%") {
		v.Type = "expand_string"
	}
	if have, err := h.RegistryValue(ctx, environmentKey, name); err == nil && have.Type == "expand_string" {
		v.Type = have.Type
	}
	if err := h.SetRegistryValue(ctx, environmentKey, name, v); err != nil {
		return envError("set environment", name, err)
	}
	announceEnvironment()
	return nil
}

// UnsetMachineEnv removes a variable and notifies the running programs.
func (h *Host) UnsetMachineEnv(ctx context.Context, name string) error {
	if err := h.DeleteRegistryValue(ctx, environmentKey, name); err != nil {
		return envError("unset environment", name, err)
	}
	announceEnvironment()
	return nil
}

func envError(op, name string, err error) error {
	var known *host.Error
	if errors.As(err, &known) {
		err = known.Err
	}
	return failed(op, name, err)
}

var sendMessageTimeout = windows.NewLazySystemDLL("user32.dll").NewProc("SendMessageTimeoutW")

// announceEnvironment lets Explorer and other listeners read the environment
// again. Its failure is of no consequence: a machine without a desktop has no listener.
func announceEnvironment() {
	const (
		broadcast     = 0xffff // HWND_BROADCAST
		settingChange = 0x001a // WM_SETTINGCHANGE
		abortIfHung   = 0x0002 // SMTO_ABORTIFHUNG
		timeout       = 1000   // ms for each window
	)
	if sendMessageTimeout.Find() != nil { // Nano Server has none
		return
	}
	topic, err := windows.UTF16PtrFromString("Environment")
	if err != nil {
		return
	}
	_, _, _ = sendMessageTimeout.Call(broadcast, settingChange, 0, uintptr(unsafe.Pointer(topic)),
		abortIfHung, timeout, 0)
}
