package steps

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Catalog lists the step kinds that there are.
type Catalog []Kind

// Lookup finds a kind by name.
func (c Catalog) Lookup(name string) (Kind, bool) {
	for i := range c {
		if c[i].Name == name {
			return c[i], true
		}
	}
	return Kind{}, false
}

// Decode makes the step of a spec, a pointer to the argument struct of its kind, with the references as they are.
func (c Catalog) Decode(s Spec) (any, Kind, error) {
	k, ok := c.Lookup(s.Kind)
	if !ok {
		return nil, k, &Error{Code: CodeInvalid, Summary: "unknown step kind",
			Detail: fmt.Sprintf("no kind is named %q", s.Kind)}
	}
	v := k.New()
	d := json.NewDecoder(bytes.NewReader(s.Args.JSON()))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return nil, k, &Error{Code: CodeInvalid, Summary: "wrong step arguments",
			Detail: fmt.Sprintf("arguments of kind %q: %v", k.Name, err)}
	}
	return v, k, nil
}

// Open is Decode of a spec with the references filled that have values.
func (c Catalog) Open(s Spec, values map[string]string) (any, Kind, error) {
	s.Args = ResolveArgs(s.Args, values)
	return c.Decode(s)
}
