package acceptance_test

import (
	"slices"
)

// cloudRoutes are the routes to a cloud's metadata over an adapter, as its agent adds them.
func cloudRoutes(adapter string) []string {
	return []string{"168.63.129.16/32 192.0.2.1 15 " + adapter, "169.254.169.254/32 192.0.2.1 15 " + adapter}
}

// addCloudRoutes adds them before there is a virtual switch.
func (b *bed) addCloudRoutes() {
	b.t.Helper()
	if err := b.host.SetRoutes(cloudRoutes(b.network.Adapter())...); err != nil {
		b.t.Fatal(err)
	}
}

// wantCloudRoutes: the machine has them over the adapter that has its address now.
func (b *bed) wantCloudRoutes(when string) {
	b.t.Helper()
	have, err := b.host.Routes()
	slices.Sort(have)
	if want := cloudRoutes(b.network.Adapter()); err != nil || !slices.Equal(have, want) {
		b.t.Errorf("%s the routes to the cloud's metadata are %q, %v, want %q", when, have, err, want)
	}
}
