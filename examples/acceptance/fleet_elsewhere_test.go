package acceptance_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fleetElsewhere: pods take their plan from a registry, and join hosts with the kubeconfig that they are given, as for
// another cluster than theirs: their ServiceAccount has no rights in it.
func (b *linuxBed) fleetElsewhere(ctx context.Context) {
	b.t.Helper()
	const hosts, shards = 3, 2
	h := startHollow(ctx, b.t, b.cluster, b.machine.Gateway(), hosts, 0)
	plan, home := h.plan(b.cluster, hosts, 100, hosts), h.home()
	args := []string{"--kubeconfig", b.cluster.Kubeconfig, "--namespace", "fleets", "--name", "elsewhere"}
	b.fleet(ctx, append([]string{"apply", plan, "--auto-approve", "--image", fleetImage, "--shards", "2",
		"--plan-image", "oci://" + serveRegistry(ctx, b.t, b.machine.Gateway()) + "/plans/elsewhere",
		"--pods-kubeconfig", b.cluster.Kubeconfig, "--ssh-key", filepath.Join(home, ".ssh", "id_ed25519"),
		"--known-hosts", filepath.Join(home, ".ssh", "known_hosts")}, args...)...)
	report := b.awaitFleet(ctx, append([]string{"status", "--json"}, args...))
	if !report.Job.Complete || len(report.Shards) != shards || len(report.Hosts) != hosts {
		b.t.Errorf("%+v\n%s", report, tail(b.fleet(ctx, append([]string{"logs"}, args...)...)))
	}
	for _, host := range report.Hosts {
		if _, err := b.cluster.Client.CoreV1().Nodes().Get(ctx, host.Node, metav1.GetOptions{}); host.Error != nil ||
			len(host.Changed) == 0 || err != nil {
			b.t.Errorf("%+v, its Node: %v", host, err)
		}
	}
	role, err := b.cluster.Client.RbacV1().ClusterRoles().Get(ctx, "fleets:elsewhere", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		b.t.Errorf("the rights of the ServiceAccount: %+v, %v", role, err)
	}
	if m, err := b.cluster.Client.CoreV1().ConfigMaps("fleets").Get(ctx, "elsewhere-plan",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		b.t.Errorf("the plan is in a ConfigMap, too: %+v, %v", m, err)
	}
}

// serveRegistry serves a registry of containers at an address, and returns where.
func serveRegistry(ctx context.Context, t *testing.T, address string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0))),
		ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // until it is closed
	t.Cleanup(func() { server.Close() })
	return l.Addr().String()
}
