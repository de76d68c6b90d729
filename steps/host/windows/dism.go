//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
)

// The DISM API: learn.microsoft.com/windows-hardware/manufacture/desktop/dism/dism-api-functions,
// with the values of dismapi.h.
var (
	dismMu            sync.Mutex // the API is initialized for the whole process
	dism              = windows.NewLazySystemDLL("dismapi.dll")
	dismInitialize    = dism.NewProc("DismInitialize")
	dismShutdown      = dism.NewProc("DismShutdown")
	dismOpenSession   = dism.NewProc("DismOpenSession")
	dismCloseSession  = dism.NewProc("DismCloseSession")
	dismFeatureInfo   = dism.NewProc("DismGetFeatureInfo")
	dismEnableFeature = dism.NewProc("DismEnableFeature")
	dismDisable       = dism.NewProc("DismDisableFeature")
	dismDelete        = dism.NewProc("DismDelete")

	dismCapabilityInfo   = dism.NewProc("DismGetCapabilityInfo")
	dismAddCapability    = dism.NewProc("DismAddCapability")
	dismRemoveCapability = dism.NewProc("DismRemoveCapability")
)

const (
	onlineImage     = "DISM_{53BFAE52-B167-4E2F-A258-0A37B57FF845}" // DISM_ONLINE_IMAGE
	dismLogErrors   = 0
	dismPackageNone = 0

	rebootRequired = 3010       // ERROR_SUCCESS_REBOOT_REQUIRED, which is a success here
	rebootToo      = 0x80070bc2 // the same as an HRESULT; the documentation does not say which comes
	reloadRequired = 1          // DISMAPI_S_RELOAD_IMAGE_SESSION_REQUIRED
	unknownFeature = 0x800f080c // DISMAPI_E_UNKNOWN_FEATURE
	servicingBusy  = 0x800f0902 // DISMAPI_E_BUSY
	rebootFirst    = 0x80070bc9 // HRESULT_FROM_WIN32(ERROR_FAIL_REBOOT_REQUIRED)
	sourceMissing  = 0x800f081f // CBS_E_SOURCE_MISSING
	notElevated    = 0x800702e4 // HRESULT_FROM_WIN32(ERROR_ELEVATION_REQUIRED)
	accessDenied   = 0x80070005 // HRESULT_FROM_WIN32(ERROR_ACCESS_DENIED)
	noUpdates      = 0x800f0954 // the update server of the machine has no capabilities
)

// dismStates is DismPackageFeatureState.
var dismStates = map[int32]host.FeatureState{
	0: host.FeatureRemoved, 1: host.FeatureOffPending, 2: host.FeatureOff, 3: host.FeatureRemoved, 4: host.FeatureOn,
	5: host.FeatureOnPending, 7: host.FeatureOff,
}

// dismError is a call of the API that failed with this HRESULT.
type dismError struct {
	error
	code uint32
}

func (e dismError) Unwrap() error { return e.error }

// result is the error of a call that returns an HRESULT. It is fs.ErrNotExist only if Windows knows no such
// feature, never because the call did not find something else.
func result(what string, r uintptr) error {
	if err := explained(what, uint32(r)); err != nil {
		return dismError{err, uint32(r)}
	}
	return nil
}

func explained(what string, code uint32) error {
	switch {
	case code == 0, code == rebootRequired, code == rebootToo, code == reloadRequired:
		return nil
	case code == unknownFeature:
		return fmt.Errorf("%s: no feature has that name: %w", what, fs.ErrNotExist)
	case code == servicingBusy:
		return fmt.Errorf("%s: Windows is installing or removing something else; try again when it is done", what)
	case code == rebootFirst:
		return fmt.Errorf("%s: Windows waits for a reboot for an earlier change and accepts no other before that", what)
	case code == sourceMissing, code == noUpdates:
		return fmt.Errorf("%s: the machine does not have the feature's files, and could not get them from Windows "+
			"Update (HRESULT %#x); install the feature in the machine's image, or from Windows' installation media",
			what, code)
	case code == notElevated:
		return fmt.Errorf("%s: only an elevated administrator may do this (HRESULT %#x)", what, code)
	case code&0xffff0000 == 0x80070000: // HRESULT_FROM_WIN32
		err := syscall.Errno(code & 0xffff)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %s", what, err.Error()) // not wrapped
		}
		return fmt.Errorf("%s: %w", what, err)
	default:
		return fmt.Errorf("%s: HRESULT %#x", what, code)
	}
}

// capability reports whether the name is that of a capability (Feature on Demand), as Windows writes it:
// NAME~PUBLISHER~ARCHITECTURE~LANGUAGE~VERSION.
func capability(name string) bool { return strings.Count(name, "~") == 4 }

// session calls f with a session of the running Windows, one at a time.
func (h *Host) session(ctx context.Context, op, name string, f func(session uint32, name *uint16) error) (err error) {
	if ctx.Err() != nil {
		return failed(op, name, context.Cause(ctx))
	}
	defer func() { err = failed(op, name, err) }()
	// A Windows without the API cannot be asked; that does not mean that it lacks the feature.
	needs := []*windows.LazyProc{dismInitialize, dismShutdown, dismOpenSession, dismCloseSession,
		dismFeatureInfo, dismEnableFeature, dismDisable, dismDelete}
	if capability(name) { // from Windows 10 on
		needs = append(needs, dismCapabilityInfo, dismAddCapability, dismRemoveCapability)
	}
	for _, p := range needs {
		if missing := p.Find(); missing != nil {
			// not wrapped: it may look like absence
			return fmt.Errorf("the DISM API cannot be asked: %s", missing.Error())
		}
	}
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return err
	}
	image, err := windows.UTF16PtrFromString(onlineImage)
	if err != nil {
		return err
	}
	dismMu.Lock()
	defer dismMu.Unlock()
	runtime.LockOSThread() // it keeps the last error by thread
	defer runtime.UnlockOSThread()
	r, _, _ := dismInitialize.Call(dismLogErrors, 0, 0)
	if err := result("DismInitialize", r); err != nil {
		return err
	}
	defer func() {
		code, _, _ := dismShutdown.Call()
		err = errors.Join(err, result("DismShutdown", code))
	}()
	var session uint32
	r, _, _ = dismOpenSession.Call(uintptr(unsafe.Pointer(image)), 0, 0, uintptr(unsafe.Pointer(&session)))
	if err := result("DismOpenSession", r); err != nil {
		return err
	}
	defer func() {
		code, _, _ := dismCloseSession.Call(uintptr(session))
		err = errors.Join(err, result("DismCloseSession", code))
	}()
	return f(session, text)
}

func changing(on bool) string {
	if on {
		return "enable feature"
	}
	return "disable feature"
}

// changeHere turns a feature on or off as the user of this process.
func (h *Host) changeHere(ctx context.Context, name string, on bool) error {
	const limitAccess, enableAll, removePayload = 0, 1, 0
	return h.session(ctx, changing(on), name, func(session uint32, text *uint16) error {
		s, feature := uintptr(session), uintptr(unsafe.Pointer(text))
		var r uintptr
		what := changeCall(name, on)
		switch what {
		case "DismAddCapability":
			r, _, _ = dismAddCapability.Call(s, feature, limitAccess, 0, 0, 0, 0, 0)
		case "DismRemoveCapability":
			r, _, _ = dismRemoveCapability.Call(s, feature, 0, 0, 0)
		case "DismEnableFeature":
			r, _, _ = dismEnableFeature.Call(s, feature, 0, dismPackageNone, limitAccess, 0, 0, enableAll, 0, 0, 0)
		case "DismDisableFeature":
			r, _, _ = dismDisable.Call(s, feature, 0, removePayload, 0, 0, 0)
		}
		return result(what, r)
	})
}

// changeCall is the call of the API that turns a feature on or off.
func changeCall(name string, on bool) string {
	switch {
	case capability(name) && on:
		return "DismAddCapability"
	case capability(name):
		return "DismRemoveCapability"
	case on:
		return "DismEnableFeature"
	default:
		return "DismDisableFeature"
	}
}
