package host

import (
	"context"
	"strings"
)

// OnInterface is h, whose facts have the first IPv4 address of an adapter in place of that of the default route; of
// an adapter that is not there, or has no address, they have none. Without a name it is h itself.
func OnInterface(h Host, name string) Host {
	if name == "" {
		return h
	}
	// A type of its own that embeds a Host would add 6 KB to the packed agent.
	return &intercepted{Host: h, do: func(_, _ string, call func() error) error { return call() }, adapter: name}
}

// Facts are those of the machine, with the address of the adapter where one was named.
func (i *intercepted) Facts(ctx context.Context) (Facts, error) {
	f, err := i.Host.Facts(ctx)
	if err != nil || i.adapter == "" {
		return f, err
	}
	list, err := i.Adapters(ctx)
	if err != nil {
		return f, err
	}
	f.ManagementIP, f.Interface, f.Subnet = "", i.adapter, ""
	for _, a := range list {
		if p := a.Prefixes(); HasAdapterName(a, i.adapter) && len(p) > 0 {
			f.ManagementIP, f.Interface, f.Subnet = p[0].Addr().String(), a.Name, p[0].Masked().String()
			break
		}
	}
	return f, nil
}

// HasAdapterName reports whether an adapter has a name, or had it before a virtual switch took its address:
// Windows then has it as "vEthernet (NAME)".
func HasAdapterName(a Adapter, name string) bool {
	return strings.EqualFold(a.Name, name) || strings.EqualFold(a.Name, "vEthernet ("+name+")")
}
