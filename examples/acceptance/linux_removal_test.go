package acceptance_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// linuxExtras is a part of a plan that the next plan drops: a service whose unit has a drop-in, a kernel parameter
// and a file that names a package repository.
const linuxExtras = `
step "service" "site" {
  on      = node.` + linuxNode + `
  name    = "site"
  command = ["/usr/bin/sleep", "infinity"]
}
step "file" "site_drop_in" {
  on      = node.` + linuxNode + `
  path    = "/etc/systemd/system/site.service.d/10-site.conf"
  content = "[Service]\nNice=5\n"
  before  = ["site"]
}
step "sysctl" "site_keepalive" {
  on    = node.` + linuxNode + `
  name  = "net.ipv4.tcp_keepalive_time"
  value = "601"
}
step "file" "site_repository" {
  on      = node.` + linuxNode + `
  path    = "/etc/apt/sources.list.d/site.list"
  content = "deb https://packages.example.com stable main\n"
}
`

// wantLessLinux applies a plan without linuxExtras and with host-gw in place of vxlan. The Node is Ready, and
// nothing of what the plan dropped is left on the machine.
func (b *linuxBed) wantLessLinux(ctx context.Context, t *testing.T) (args []string) {
	const unit, parameter = "/etc/systemd/system/site.service", "/proc/sys/net/ipv4/tcp_keepalive_time"
	show := func(argv ...string) string {
		out, _ := b.machine.Run(ctx, argv...) // what is not there is said on standard error
		return strings.TrimSpace(out)
	}
	files := []string{unit, unit + ".d", "/etc/apt/sources.list.d/site.list",
		"/etc/sysctl.d/90-nodejoin-net.ipv4.tcp_keepalive_time.conf"}
	for _, path := range files {
		if _, err := os.Stat(b.machine.Path(path)); err != nil {
			t.Errorf("before the removal: %v", err)
		}
	}
	if is, value := show("systemctl", "is-active", "site"), show("cat", parameter); is != "active" || value != "601" ||
		show("ip", "link", "show", "flannel.4096") == "" {
		t.Fatalf("before the removal: service site is %s, the kernel parameter is %s", is, value)
	}
	head := strings.Replace(b.head(), "backend = \"vxlan\"\n  vni     = 4096\n  port    = 4789", `backend = "host-gw"`, 1)
	args = writePlan(b.t, head, b.linuxHost()) // the leave needs it as well
	r := mustApply(ctx, t, args)
	t.Logf("removed in %.1fs", r.took.Seconds())
	for _, path := range files {
		if _, err := os.Lstat(b.machine.Path(path)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s still exists: %v", path, err)
		}
	}
	if out := show("systemctl", "list-units", "--all", "--plain", "--no-legend", "site.service"); out != "" {
		t.Errorf("systemd still knows the unit: %s", out)
	}
	if value := show("cat", parameter); value == "601" {
		t.Errorf("the kernel parameter is %s", value)
	}
	if out, err := b.machine.Run(ctx, "ip", "-oneline", "link"); err != nil || strings.Contains(out, "flannel") {
		t.Errorf("network interfaces: %v\n%s", err, out)
	}
	until(ctx, t, "flanneld with its new backend", func() error { // it writes subnet.env before
		node, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, linuxNode, metav1.GetOptions{})
		if err == nil && node.Annotations["flannel.alpha.coreos.com/backend-type"] != "host-gw" {
			err = fmt.Errorf("the Node has the annotations %v", node.Annotations)
		}
		return err
	})
	b.wantLinuxNode(ctx, "systemd")
	wantPod(ctx, t, b.cluster, b.machine, linuxNode)
	wantNothing(ctx, t, args)
	return args
}
