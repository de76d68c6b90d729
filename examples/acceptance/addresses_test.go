package acceptance_test

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// wantNeverGivenOut asks the real host-local for addresses, as a pod's CNI call does: from a range with only
// the source VIP, which must be refused; from one that has its neighbour too, which must be returned; and for
// several, as many pods do.
func (b *bed) wantNeverGivenOut(ctx context.Context, t *testing.T, vip net.IP) {
	taken, err := netip.ParseAddr(vip.String())
	if err != nil {
		t.Fatal(err)
	}
	var conflist struct{ CNIVersion, Name string }
	if err := json.Unmarshal(b.read(`C:\etc\cni\net.d\10-flannel.conflist`), &conflist); err != nil {
		t.Fatal(err)
	}
	pods, err := taken.Prefix(24)
	if err != nil {
		t.Fatal(err)
	}
	call := func(command, container string, from, to netip.Addr) (string, error) {
		// The store is host-local's default, which flannel does not change.
		conf, err := json.Marshal(map[string]any{"cniVersion": conflist.CNIVersion, "name": conflist.Name,
			"type": "win-overlay",
			"ipam": map[string]any{"type": "host-local",
				"ranges": [][]map[string]string{{{"subnet": pods.String(), "rangeStart": from.String(),
					"rangeEnd": to.String()}}}}})
		if err != nil {
			t.Fatal(err)
		}
		return b.host.RunWith(ctx, []string{"CNI_COMMAND=" + command, "CNI_CONTAINERID=" + container, "CNI_NETNS=none",
			"CNI_IFNAME=eth0", `CNI_PATH=C:\opt\cni\bin`},
			string(conf), `C:\opt\cni\bin\host-local.exe`)
	}
	add := func(container string, from, to netip.Addr) netip.Addr {
		t.Helper()
		out, err := call("ADD", container, from, to)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			IPs []struct{ Address netip.Prefix }
		}
		if err := json.Unmarshal([]byte(out), &answer); err != nil || len(answer.IPs) != 1 {
			t.Fatalf("host-local ADD: %v: %s", err, out)
		}
		return answer.IPs[0].Address.Addr()
	}

	if out, err := call("ADD", "alone", taken, taken); err == nil || !strings.Contains(out, "no IP addresses available") {
		t.Errorf("host-local, with only the source VIP free: %v: %s", err, out)
	}
	if have := add("neighbour", taken, taken.Next()); have != taken.Next() {
		t.Errorf("host-local gave %s, want %s", have, taken.Next())
	}
	last := taken
	for range 6 {
		last = last.Next()
	}
	given := []string{"neighbour"}
	for _, container := range []string{"pod-1", "pod-2", "pod-3", "pod-4", "pod-5"} {
		if have := add(container, taken, last); have == taken {
			t.Errorf("host-local gave the source VIP to %s", container)
		}
		given = append(given, container)
	}
	for _, container := range given {
		if out, err := call("DEL", container, taken, last); err != nil {
			t.Errorf("host-local DEL: %v: %s", err, out)
		}
	}
}
