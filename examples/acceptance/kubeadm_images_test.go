package acceptance_test

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nodejoin/examples/acceptance/internal/components"
	"nodejoin/examples/acceptance/internal/controlplane"
	"nodejoin/examples/acceptance/internal/machine"
)

// programImage is an image with one program to run, /usr/local/bin/NAME.
type programImage struct {
	image   string // "registry.k8s.io/pause:3.10"
	name    string // "pause"
	program string // on this machine
	// More files of this machine, under their own paths, and symbolic links to such.
	files []string
	links map[string]string
}

// kubeadmImages are the images that kubeadm of a version wants, by name. Those of pause and CoreDNS have a program
// that waits.
func kubeadmImages(ctx context.Context, t *testing.T, version string) map[string]programImage {
	t.Helper()
	set := componentSet(t)
	kubeadm := map[string]string{components.OldKubernetes: controlplane.OlderKubeadm, components.Kubernetes: "kubeadm"}
	out, err := exec.CommandContext(ctx, set.Bin(kubeadm[version]), "config", "images", "list",
		"--kubernetes-version", "v"+version).Output()
	if err != nil {
		t.Fatal(err)
	}
	waits := goBuildIn(t, ".", "linux", "podimage", "build", "-trimpath", "-ldflags", "-s -w", "./podimage")
	images := map[string]programImage{}
	for image := range strings.FieldsSeq(string(out)) {
		name, _, _ := strings.Cut(path.Base(image), ":")
		switch name {
		case "kube-proxy":
			images[name] = proxyImage(ctx, t, version)
		case "pause", "coredns":
			images[name] = programImage{image: image, name: name, program: waits}
		default:
			images[name] = programImage{image: image, name: name, program: set.Bin(name)}
		}
	}
	return images
}

// proxyImageName is what kubeadm calls the image of kube-proxy.
func proxyImageName(version string) string { return "registry.k8s.io/kube-proxy:v" + version }

// proxyImage is the image of kube-proxy: the program, and this machine's iptables with its modules and libraries.
func proxyImage(ctx context.Context, t *testing.T, version string) programImage {
	t.Helper()
	program := map[string]string{components.OldKubernetes: "kube-proxy-1.35", components.Kubernetes: "kube-proxy"}
	found, err := exec.LookPath("iptables")
	if err != nil {
		t.Fatal(err)
	}
	iptables, err := filepath.EvalSymlinks(found) // one program for all names
	if err != nil {
		t.Fatal(err)
	}
	modules, _ := filepath.Glob("/usr/lib/*/xtables/lib*.so") // the pattern is well-formed
	libraries, err := exec.CommandContext(ctx, "ldd", iptables).Output()
	if err != nil || len(modules) == 0 {
		t.Fatalf("iptables has %d modules, and libraries %q: %v", len(modules), libraries, err)
	}
	i := programImage{image: proxyImageName(version), name: "kube-proxy", links: map[string]string{},
		program: componentSet(t).Bin(program[version]), files: append(modules, iptables)}
	for library := range strings.FieldsSeq(string(libraries)) {
		if filepath.IsAbs(library) {
			i.files = append(i.files, library)
		}
	}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, name := range []string{family, family + "-save", family + "-restore"} {
			i.links["usr/sbin/"+name] = iptables
		}
	}
	return i
}

// addonImages are the images of kubeadm's pods that run on workers, too.
func addonImages(ctx context.Context, t *testing.T, version string) []programImage {
	t.Helper()
	images := kubeadmImages(ctx, t, version)
	return []programImage{images["kube-proxy"], images["coredns"]}
}

// importPrograms imports images into the machine's containerd.
func importPrograms(ctx context.Context, t *testing.T, m *machine.Machine, images ...programImage) {
	t.Helper()
	cmd := m.Command(ctx, "/usr/local/bin/ctr", "--namespace", "k8s.io", "images", "import", "-")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	archive := programArchive{w: tar.NewWriter(in)}
	for _, i := range images {
		err = errors.Join(err, archive.add(i))
	}
	err = errors.Join(err, archive.end(), in.Close(), cmd.Wait())
	if err != nil {
		t.Fatalf("import of images: %v\n%s", err, said.String())
	}
}

// programArchive is an archive of images as `docker save` makes it, written as a stream, since programs are large.
type programArchive struct {
	w         *tar.Writer
	manifests []map[string]any
}

func (a *programArchive) add(i programImage) error {
	digest, size := sha256.New(), &counter{}
	if err := i.writeLayer(io.MultiWriter(digest, size)); err != nil {
		return err
	}
	sum := hex.EncodeToString(digest.Sum(nil))
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/usr/local/bin/" + i.name},
			"Env": []string{"PATH=/usr/local/bin:/usr/sbin"}},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + sum}},
		"history": []any{map[string]any{"created_by": "test"}},
	})
	if err != nil {
		return err
	}
	layer, about := i.name+"/layer.tar", i.name+"/config.json"
	a.manifests = append(a.manifests, map[string]any{"Config": about, "RepoTags": []string{i.image},
		"Layers": []string{layer}})
	if err := a.w.WriteHeader(&tar.Header{Name: layer, Mode: 0o644, Size: size.n}); err != nil {
		return err
	}
	if err := i.writeLayer(a.w); err != nil {
		return err
	}
	return a.file(about, config)
}

func (a *programArchive) file(name string, text []byte) error {
	err := a.w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
	if err == nil {
		_, err = a.w.Write(text)
	}
	return err
}

func (a *programArchive) end() error {
	text, err := json.Marshal(a.manifests)
	return errors.Join(err, a.file("manifest.json", text), a.w.Close())
}

// writeLayer writes what is in the image.
func (i programImage) writeLayer(to io.Writer) error {
	w := tar.NewWriter(to)
	if err := writeProgram(w, "usr/local/bin/"+i.name, i.program); err != nil {
		return err
	}
	for _, file := range i.files {
		if err := writeProgram(w, strings.TrimPrefix(file, "/"), file); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.links)) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: i.links[name],
			Mode: 0o777}); err != nil {
			return err
		}
	}
	return w.Close()
}

func writeProgram(w *tar.Writer, name, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// counter counts what is written.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
