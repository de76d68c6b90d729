package loopback

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
	"nodejoin/steps/wait"
)

const loopbackID = "*MSLOOP" // hardware id of netloop.inf

var (
	// GUID_DEVCLASS_NET of devguid.h
	netClass = windows.GUID{Data1: 0x4d36e972, Data2: 0xe325, Data3: 0x11ce,
		Data4: [8]byte{0xbf, 0xc1, 8, 0, 0x2b, 0xe1, 3, 0x18}}
	updateDriver = windows.NewLazySystemDLL("newdev.dll").NewProc("UpdateDriverForPlugAndPlayDevicesW")
)

// Add adds a loopback adapter with an address of IPv4 and its mask, as devcon install netloop.inf *MSLOOP does, and
// returns its name and what removes it.
func Add(ctx context.Context, h host.Host, address, mask string) (name string, remove func() error, err error) {
	before, err := h.Adapters(ctx)
	if err != nil {
		return "", nil, err
	}
	set, err := windows.SetupDiCreateDeviceInfoListEx(&netClass, 0, "")
	if err != nil {
		return "", nil, err
	}
	device, err := set.CreateDeviceInfo("NET", &netClass, "", 0, windows.DICD_GENERATE_ID)
	if err != nil {
		return "", nil, errors.Join(err, set.Close())
	}
	remove = func() error { return errors.Join(set.CallClassInstaller(windows.DIF_REMOVE, device), set.Close()) }
	if err := errors.Join(set.SetDeviceRegistryPropertyString(device, windows.SPDRP_HARDWAREID, loopbackID+"\x00"),
		set.CallClassInstaller(windows.DIF_REGISTERDEVICE, device)); err != nil {
		return "", nil, errors.Join(err, set.Close())
	}
	if name, err = start(ctx, h, before, address, mask); err != nil {
		return "", nil, errors.Join(err, remove())
	}
	return name, remove, nil
}

// start gives the new device its driver and its address.
func start(ctx context.Context, h host.Host, before []host.Adapter, address, mask string) (string, error) {
	folder, err := windows.GetWindowsDirectory()
	if err != nil {
		return "", err
	}
	inf, err := windows.UTF16PtrFromString(filepath.Join(folder, "INF", "netloop.inf"))
	if err != nil {
		return "", err
	}
	id, err := windows.UTF16PtrFromString(loopbackID)
	if err != nil {
		return "", err
	}
	var reboot int32
	ok, _, err := updateDriver.Call(0, uintptr(unsafe.Pointer(id)), uintptr(unsafe.Pointer(inf)), 0,
		uintptr(unsafe.Pointer(&reboot)))
	if ok == 0 {
		return "", fmt.Errorf("the driver: %w", err)
	}
	for began := time.Now(); time.Since(began) < time.Minute && ctx.Err() == nil; _ = wait.Pause(ctx, time.Second) {
		now, err := h.Adapters(ctx)
		if err != nil {
			return "", err
		}
		for _, a := range now {
			if slices.ContainsFunc(before, func(b host.Adapter) bool { return b.Name == a.Name }) {
				continue
			}
			if err := setAddress(ctx, h, folder, a.Name, address, mask); err != nil {
				return "", fmt.Errorf("its address: %w", err)
			}
			return a.Name, nil
		}
	}
	return "", errors.New("it did not appear within a minute")
}

func setAddress(ctx context.Context, h host.Host, folder, adapter, address, mask string) error {
	code, err := h.RunProgram(ctx, host.Program{Command: []string{filepath.Join(folder, "System32", "netsh.exe"),
		"interface", "ipv4", "set", "address", "name=" + adapter, "static", address, mask}})
	if err == nil && code != 0 {
		err = fmt.Errorf("netsh ended with code %d", code)
	}
	return err
}
