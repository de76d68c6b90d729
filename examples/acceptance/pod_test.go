package acceptance_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/examples/acceptance/internal/controlplane"
	"nodejoin/examples/acceptance/internal/machine"
)

const (
	sandboxImage = "localhost/pause:1"
	serveImage   = "localhost/serve:1"
	agnhostImage = "localhost/agnhost:1" // the commands that verify uses
)

// images creates an archive with the images, as `docker save` does: one static
// program, no registry.
func images(t *testing.T) []byte {
	t.Helper()
	return imageArchive(t, podLayer(t), map[string]map[string]any{sandboxImage: {"Entrypoint": []string{"/podimage"}},
		serveImage:   {"Entrypoint": []string{"/podimage", "serve"}},
		agnhostImage: {"Entrypoint": []string{"/podimage"}}})
}

// imageArchive creates an archive with images of one layer, by their names.
func imageArchive(t *testing.T, layer []byte, configs map[string]map[string]any) []byte {
	t.Helper()
	digest := func(b []byte) string { sum := sha256.Sum256(b); return hex.EncodeToString(sum[:]) }
	files, order := map[string][]byte{"layer.tar": layer}, []string{"layer.tar"}
	type manifest struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	var manifests []manifest
	for _, image := range slices.Sorted(maps.Keys(configs)) {
		config, err := json.Marshal(map[string]any{
			"architecture": "amd64", "os": "linux", "config": configs[image],
			"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
			"history": []any{map[string]any{"created_by": "test"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		name := digest(config) + ".json"
		files[name], order = config, append(order, name)
		manifests = append(manifests, manifest{name, []string{image}, []string{"layer.tar"}})
	}
	var err error
	if files["manifest.json"], err = json.Marshal(manifests); err != nil {
		t.Fatal(err)
	}
	return tarOf(t, files, append(order, "manifest.json")...)
}

// podLayer is the layer of the images: one static program.
func podLayer(t *testing.T) []byte {
	t.Helper()
	program := goBuildIn(t, ".", "linux", "podimage", "build", "-trimpath", "-ldflags", "-s -w", "./podimage")
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	return tarOf(t, map[string][]byte{"podimage": b, "bin/echo": b}, "podimage", "bin/echo")
}

func tarOf(t *testing.T, files map[string][]byte, order ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range order {
		if err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Mode: 0o755,
			Size: int64(len(files[name]))})); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// importImages imports the images into the machine's containerd.
func importImages(ctx context.Context, t *testing.T, m *machine.Machine) {
	t.Helper()
	importArchive(ctx, t, m, images(t))
}

// importArchive imports an archive of images.
func importArchive(ctx context.Context, t *testing.T, m *machine.Machine, archive []byte) {
	t.Helper()
	const file = "/tmp/images.tar"
	if err := os.WriteFile(m.Path(file), archive, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Run(ctx, "/usr/local/bin/ctr", "--namespace", "k8s.io", "images", "import", file); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(m.Path(file)); err != nil {
		t.Fatal(err)
	}
}

// wantPod runs a pod on the node: it gets an address from the node's pod subnet, has namespaces of its own,
// answers, and its log can be read through the API server.
func wantPod(ctx context.Context, t *testing.T, c *controlplane.Cluster, m *machine.Machine, node string) {
	t.Helper()
	importImages(ctx, t, m)
	pods := c.Client.CoreV1().Pods(metav1.NamespaceDefault)
	until(ctx, t, "the default service account", func() error {
		_, err := c.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	grace := int64(1)
	name := "served-on-" + node
	if _, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		NodeName: node, TerminationGracePeriodSeconds: &grace, // there is no scheduler here
		Containers: []corev1.Container{{Name: "serve", Image: serveImage, ImagePullPolicy: corev1.PullNever}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var pod *corev1.Pod
	until(ctx, t, "the pod", func() (err error) {
		if pod, err = pods.Get(ctx, name, metav1.GetOptions{}); err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("the pod is %s: %+v", pod.Status.Phase, pod.Status)
		}
		return err
	})
	kubeNode, err := c.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, cidr, err := net.ParseCIDR(kubeNode.Spec.PodCIDR)
	if err != nil || !cidr.Contains(net.ParseIP(pod.Status.PodIP)) {
		t.Errorf("the pod has address %s, want one in %s (%v)", pod.Status.PodIP, cidr, err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: m.Dial, DisableKeepAlives: true}}
	until(ctx, t, "an answer of the pod", func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+pod.Status.PodIP+":8080/", nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if want := name + ", process 1"; err == nil && string(text) != want {
			t.Errorf("the pod says %q, want %q", text, want)
		}
		return err
	})
	log, err := pods.GetLogs(name, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil || !strings.Contains(string(log), "served by "+name) {
		t.Errorf("the pod's log: %q, %v", log, err)
	}
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "the end of the pod", func() error {
		_, err := pods.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New("the pod still exists")
	})
}

// until retries until there is no error, for at most two minutes.
func until(ctx context.Context, t *testing.T, what string, ask func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, err)
		case <-tick.C:
		}
	}
}
