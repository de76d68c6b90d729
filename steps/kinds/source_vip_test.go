package kinds_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

const store = `C:\var\lib\cni\networks\flannel.4096`

func sourceVIP(subnet string) []steps.Spec {
	return []steps.Spec{stepstest.Spec("source_vip", "vip", &kinds.SourceVIP{Dir: `C:\var\lib\cni\networks`,
		Network: "flannel.4096", Subnet: subnet})}
}

// racing is a machine on which a plugin reserves an address just before nodejoin does.
type racing struct {
	host.Host
	lost int
}

func (r *racing) CreateExclusive(ctx context.Context, path string, data []byte) error {
	if r.lost > 0 {
		r.lost--
		if err := r.Host.CreateExclusive(ctx, path, []byte("pod\r\neth0")); err != nil {
			return err
		}
	}
	return r.Host.CreateExclusive(ctx, path, data)
}

func TestSourceVIPSkipsWhatOthersTake(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	stepstest.Put(t, h, store+`\10.244.3.3`, "pod\r\neth0")
	r := stepstest.Applied(t, &racing{Host: h, lost: 1}, stepstest.Memory{}, sourceVIP("10.244.3.0/24"))
	if have := r.Values["vip.address"]; have != "10.244.3.4" {
		t.Errorf("address %q, want the first that is free", have)
	}
	if have := stepstest.Text(t, h, store+`\10.244.3.2`); have != "pod\r\neth0" {
		t.Errorf("the plugin's reservation holds %q", have)
	}
	// Without a line break, as host-local parses it.
	if have := stepstest.Text(t, h, store+`\last_reserved_ip.0`); have != "10.244.3.4" {
		t.Errorf("last reserved is %q", have)
	}
}

// The output comes from the store alone, without a record.
func TestSourceVIPIsRead(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	stepstest.Put(t, h, store+`\10.244.3.77`, "kube-proxy\r\nsource-vip")
	r := stepstest.Applied(t, h, stepstest.Memory{}, sourceVIP("10.244.3.0/24"))
	if have := r.Values["vip.address"]; have != "10.244.3.77" || r.Mutations != 0 {
		t.Errorf("address %q, %d mutating calls", have, r.Mutations)
	}
}

func TestSourceVIPWithoutFreeAddress(t *testing.T) {
	h := stepstest.OpenHost(t, "windows")
	for i := 2; i <= 6; i++ {
		stepstest.Put(t, h, fmt.Sprintf(`%s\10.0.0.%d`, store, i), "pod\r\neth0")
	}
	r := stepstest.Apply(t, h, stepstest.Memory{}, sourceVIP("10.0.0.0/29"))
	if r.Err == nil || r.Err.Remedy == "" || !strings.Contains(r.Err.Detail, "10.0.0.0/29") {
		t.Errorf("%+v", r.Err)
	}
}

// blind is a machine whose store cannot be read.
type blind struct{ host.Host }

func (b blind) List(ctx context.Context, path string) ([]host.FileInfo, error) {
	return nil, &host.Error{Op: "list", Subject: path, Err: fs.ErrPermission}
}

func TestSourceVIPUnreadableStoreIsNotEmpty(t *testing.T) {
	r := stepstest.Apply(t, blind{stepstest.OpenHost(t, "windows")}, stepstest.Memory{}, sourceVIP("10.244.3.0/24"))
	if r.Err == nil || r.Err.Code != steps.CodeDenied || r.Mutations != 0 {
		t.Errorf("%+v, %d mutating calls", r.Err, r.Mutations)
	}
}
