package kinds

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/event"
	"nodejoin/steps/host"
	"nodejoin/steps/wait"
)

// addressWait bounds how long the machine's address may be on no adapter, and HNS may find none, after a virtual
// switch has gone.
const addressWait = time.Minute

// awaitAdapterWith is the name of the adapter with an address. It waits until there is one.
func awaitAdapterWith(bound context.Context, r host.Reader, e *steps.Env, address string) (name string, err error) {
	said := false
	waited := wait.Until(bound, lookMost, func() (bool, error) {
		if name, err = adapterWith(bound, r, address); err == nil || said {
			return err == nil, nil
		}
		said = true
		e.Progress(event.StepProgress{Note: "waits until an adapter has the machine's address again"})
		return false, nil
	})
	if err != nil {
		return "", err
	}
	return name, waited
}

// adapterWith is the name of the adapter with an address.
func adapterWith(ctx context.Context, r host.NetworkReader, address string) (string, error) {
	list, err := r.Adapters(ctx)
	if err != nil {
		return "", err
	}
	want, err := netip.ParseAddr(address)
	for _, a := range list {
		if err == nil && slices.ContainsFunc(a.Prefixes(), func(p netip.Prefix) bool { return p.Addr() == want }) {
			return a.Name, nil
		}
	}
	return "", &steps.Error{Code: steps.CodeFailed, Summary: "no adapter has the address",
		Detail: fmt.Sprintf("none of the machine's adapters has %s",
			cmp.Or(address, "an address with a default route")),
		Remedy: "correct management_ip in the plan, or the machine's address"}
}
