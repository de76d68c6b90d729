//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"nodejoin/steps/host"
)

// Feature asks for the state of a feature.
func (h *Host) Feature(ctx context.Context, name string) (state host.FeatureState, err error) {
	err = h.session(ctx, "read feature", name, func(session uint32, text *uint16) error {
		// DismFeatureInfo and DismCapabilityInfo, packed to single bytes: the name (8 bytes), then the state.
		var info unsafe.Pointer
		what, call := "DismGetFeatureInfo", func() (uintptr, uintptr, error) {
			return dismFeatureInfo.Call(uintptr(session), uintptr(unsafe.Pointer(text)), 0, dismPackageNone,
				uintptr(unsafe.Pointer(&info)))
		}
		if capability(name) {
			what, call = "DismGetCapabilityInfo", func() (uintptr, uintptr, error) {
				return dismCapabilityInfo.Call(uintptr(session), uintptr(unsafe.Pointer(text)), uintptr(unsafe.Pointer(&info)))
			}
		}
		r, _, _ := call()
		if err := result(what, r); err != nil {
			return err
		}
		if info == nil {
			return errors.New(what + " gave nothing")
		}
		number := *(*int32)(unsafe.Add(info, unsafe.Sizeof(uintptr(0))))
		_, _, _ = dismDelete.Call(uintptr(info))
		var known bool
		if state, known = dismStates[number]; !known {
			return fmt.Errorf("it is in a state with the number %d", number)
		}
		return nil
	})
	return state, err
}

// EnableFeature turns a feature on, with all that it needs. Windows Update is used only if the machine
// lacks its files. Once started it runs to its end even if ctx ends: Windows does not promise anything
// about a canceled change.
func (h *Host) EnableFeature(ctx context.Context, name string) error {
	return h.change(ctx, name, true)
}

// DisableFeature turns a feature off and keeps its files.
func (h *Host) DisableFeature(ctx context.Context, name string) error {
	return h.change(ctx, name, false)
}

// change turns a feature on or off; as SYSTEM where Windows refuses this login.
func (h *Host) change(ctx context.Context, name string, on bool) error {
	err := h.changeHere(ctx, name, on)
	if refusesLogin(err) && h.featureService != nil {
		return failed(changing(on), name, changeAsSystem(ctx, h.featureService, name, on))
	}
	return err
}
