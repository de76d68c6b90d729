//go:build windows

package windows

import (
	"errors"
	"testing"
)

// Every Windows has a processor; its architecture is a uint16, as the ports are.
func TestQuery(t *testing.T) {
	err := withCOM(func() error {
		n := 0
		err := query(`root\CIMV2`, "SELECT * FROM Win32_Processor", func(one object) error {
			n++
			v, err := property(one, "Architecture")
			if _, ok := v.(int32); err == nil && !ok {
				t.Errorf("the architecture is %v, a %T", v, v)
			}
			return err
		})
		if n == 0 {
			t.Error("there is no processor")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	err = withCOM(func() error {
		return query(`root\CIMV2`, "SELECT * FROM NoSuchClass", func(object) error { return nil })
	})
	var code hresultError
	if err != nil && !errors.As(err, &code) {
		t.Errorf("a class that does not exist: %v", err)
	}
}
