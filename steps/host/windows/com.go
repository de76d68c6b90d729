//go:build windows

package windows

import (
	"errors"
	"fmt"
	"runtime"

	ole "github.com/go-ole/go-ole"
	"github.com/go-ole/go-ole/oleutil"
	"golang.org/x/sys/windows"
)

// COM results that are treated differently.
const (
	hresultSFalse          = 1          // COM was initialized on this thread before
	hresultDispException   = 0x80020009 // the object's own code is in the exception info
	hresultNotRegistered   = 0x80040154 // REGDB_E_CLASSNOTREG
	hresultNotImplemented  = 0x80004001 // E_NOTIMPL
	hresultNoMember        = 0x8002802B // TYPE_E_ELEMENTNOTFOUND
	hresultWin32FileAbsent = 0x80070002 // HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND)
)

// hresultError is a failed COM call.
type hresultError uint32

func (e hresultError) Error() string {
	if e>>16 == 0x8007 { // FACILITY_WIN32
		return windows.Errno(e & 0xffff).Error()
	}
	return fmt.Sprintf("COM error 0x%08X", uint32(e))
}

// hresult returns the code that the object itself failed with.
func hresult(err error) error {
	var oleErr *ole.OleError
	if !errors.As(err, &oleErr) {
		return err
	}
	code := uint32(oleErr.Code())
	var info ole.EXCEPINFO
	if errors.As(oleErr.SubError(), &info) && code == hresultDispException && info.SCODE() != 0 {
		code = info.SCODE()
	}
	return hresultError(code)
}

// withCOM runs f on a thread of its own on which COM is initialized.
func withCOM(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := ole.CoInitializeEx(0, ole.COINIT_MULTITHREADED); err != nil {
		var oleErr *ole.OleError
		if !errors.As(err, &oleErr) || oleErr.Code() != hresultSFalse {
			return hresult(err)
		}
	}
	defer ole.CoUninitialize()
	return f()
}

// object is a COM object whose methods are called by name.
type object struct{ *ole.IDispatch }

func newObject(class *ole.GUID) (object, error) {
	unknown, err := ole.CreateInstance(class, ole.IID_IUnknown)
	if err != nil {
		return object{}, hresult(err)
	}
	defer unknown.Release()
	d, err := unknown.QueryInterface(ole.IID_IDispatch)
	if err != nil {
		return object{}, hresult(err)
	}
	return object{d}, nil
}

func (o object) call(method string, args ...any) error {
	result, err := oleutil.CallMethod(o.IDispatch, method, args...)
	if err != nil {
		return hresult(err)
	}
	return result.Clear()
}

func (o object) put(property string, value any) error {
	result, err := oleutil.PutProperty(o.IDispatch, property, value)
	if err != nil {
		return fmt.Errorf("%s: %w", property, hresult(err))
	}
	return result.Clear()
}

// child is the object that a property or method returns; the caller releases it.
func (o object) child(f func(*ole.IDispatch, string, ...any) (*ole.VARIANT, error), name string,
	args ...any) (object, error) {
	result, err := f(o.IDispatch, name, args...)
	if err != nil {
		return object{}, hresult(err)
	}
	d := result.ToIDispatch()
	if d == nil {
		return object{}, fmt.Errorf("%s gave no object", name)
	}
	return object{d}, nil
}

func (o object) text(property string) (string, error) {
	v, err := o.get(property)
	if err != nil || v == nil {
		return "", err
	}
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%s is a %T", property, v)
	}
	return s, nil
}

func (o object) number(property string) (int32, error) {
	v, err := o.get(property)
	if err != nil {
		return 0, err
	}
	n, ok := v.(int32)
	if !ok {
		return 0, fmt.Errorf("%s is a %T", property, v)
	}
	return n, nil
}

func (o object) flag(property string) (bool, error) {
	v, err := o.get(property)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("%s is a %T", property, v)
	}
	return b, nil
}

func (o object) get(property string) (any, error) {
	result, err := oleutil.GetProperty(o.IDispatch, property)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", property, hresult(err))
	}
	v := result.Value()
	return v, result.Clear()
}
