//go:build windows

package windows

import (
	"errors"

	ole "github.com/go-ole/go-ole"
	"github.com/go-ole/go-ole/oleutil"
)

// classLocator is WbemScripting.SWbemLocator (wbemdisp.h).
var classLocator = ole.NewGUID("{76A64158-CB41-11D1-8B02-00600806D9B6}")

// Results of WMI (wbemcli.h) for classes that this Windows does not have.
const (
	wbemInvalidNamespace = 0x8004100E
	wbemInvalidClass     = 0x80041010
	wbemProviderAbsent   = 0x80041011 // WBEM_E_PROVIDER_NOT_FOUND
)

// query calls each with every object that a WMI query returns. It runs within withCOM.
func query(namespace, text string, each func(one object) error) error {
	locator, err := newObject(classLocator)
	if err != nil {
		return err
	}
	defer locator.Release()
	service, err := locator.child(oleutil.CallMethod, "ConnectServer", ".", namespace)
	if err != nil {
		return err
	}
	defer service.Release()
	set, err := service.child(oleutil.CallMethod, "ExecQuery", text)
	if err != nil {
		return err
	}
	defer set.Release()
	return hresult(oleutil.ForEach(set.IDispatch, func(v *ole.VARIANT) error {
		d := v.ToIDispatch()
		if d == nil {
			return errors.New("WMI gave no object")
		}
		defer d.Release()
		return each(object{d})
	}))
}

// property is a property of an object from query, nil if it has no value.
func property(one object, name string) (any, error) {
	all, err := one.child(oleutil.GetProperty, "Properties_")
	if err != nil {
		return nil, err
	}
	defer all.Release()
	p, err := all.child(oleutil.CallMethod, "Item", name, 0)
	if err != nil {
		return nil, err
	}
	defer p.Release()
	return p.get("Value")
}
