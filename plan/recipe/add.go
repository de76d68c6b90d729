package recipe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"nodejoin/steps"
	"nodejoin/steps/kinds"
	"nodejoin/templates"
)

// add appends a step that runs after the given ids. Ids that the settings skip are ignored.
func (b *build) add(id, kind, title string, args any, after ...string) *steps.Spec {
	if s, ok := args.(*kinds.Service); ok {
		args = b.withSettings(s)
	}
	switch args.(type) {
	// these read the settings at their start or are fetched through the proxy
	case *kinds.Service, *kinds.Archive, *kinds.Binary:
		after = slices.AppendSeq(slices.Clone(after), maps.Keys(b.before))
	}
	after = slices.DeleteFunc(slices.Clone(after), func(id string) bool { return b.left[id] })
	slices.Sort(after)
	b.specs = append(b.specs, steps.Spec{ID: id, Kind: kind, Title: title, Args: steps.MustArgs(args),
		After: slices.Compact(after), Source: b.in.Source})
	return &b.specs[len(b.specs)-1]
}

// keeping adds the steps of a block, whose things stay when the plan no longer has it if keep is set.
func (b *build) keeping(keep bool, add func()) {
	first := len(b.specs)
	add()
	for i := range b.specs[first:] {
		b.specs[first+i].Keep = keep
	}
}

// render returns the rendered text and records any error.
func (b *build) render(r interface{ Render() (string, error) }) string {
	text, err := r.Render()
	b.fail(err)
	return text
}

// artifact returns the source of an artifact and records an error if the plan gives none.
func (b *build) artifact(name string) steps.Source {
	src, ok := b.in.Artifacts[name]
	if !ok {
		b.fail(&MissingArtifactError{name})
	}
	return src
}

// isArchive reports whether the file name of an artifact is that of an archive.
func isArchive(src steps.Source) bool {
	name := src.Name()
	if src.URL != "" {
		name, _, _ = strings.Cut(name, "?")
	}
	return steps.IsArchive(name)
}

// program adds an artifact that is a single file. An archive is rejected: the name of its member varies, and
// a wrong guess would only show when a pod starts. service and others run from it.
func (b *build) program(id, artifact, path, title, service, after string, others ...string) {
	src := b.artifact(artifact)
	if isArchive(src) {
		b.fail(fmt.Errorf("artifact %q: %s is an archive; give the program itself", artifact, src.Name()))
	}
	args := &kinds.Binary{Source: src, Path: path}
	if service != "" {
		args.Services = append([]string{service}, others...)
	}
	b.add(id, "binary", title, args, after).Retries = downloadRetries(src)
}

func (b *build) archive(id, title string, a kinds.Archive, after string) {
	b.add(id, "archive", title, &a, after).Retries = downloadRetries(a.Source)
}

// downloadRetries: downloads are retried, as connections drop while HNS rebuilds the machine's network. Files
// of the controller are not.
func downloadRetries(src steps.Source) int {
	if src.URL != "" {
		return 2
	}
	return 0
}

// proxied are the services that connect to the outside: the runtime pulls images, the kubelet asks credential
// providers for registries. flanneld and kube-proxy connect to the API server only.
var proxied = []string{"containerd", "docker", "kubelet"}

// withSettings completes a service with its recovery settings and, if it connects to the outside, with the
// proxy.
func (b *build) withSettings(s *kinds.Service) *kinds.Service {
	s = b.in.Settings.Services.recovery(s)
	p := b.in.Settings.Proxy
	if p == nil || !slices.Contains(proxied, s.Name) {
		return s
	}
	out := *s
	out.Environment = slices.Clone(s.Environment)
	for _, v := range b.proxyVariables() {
		out.Environment = append(out.Environment, v.name+"="+v.value)
		if p.Sensitive && v.name != "NO_PROXY" {
			out.SensitiveEnvironment = append(out.SensitiveEnvironment, v.name)
		}
	}
	slices.Sort(out.Environment)
	return &out
}

// leave records a step that the settings skip.
func (b *build) leave(id string) {
	if b.left == nil {
		b.left = map[string]bool{}
	}
	b.left[id] = true
}

// merged returns a rendered YAML file overlaid with the plan's fields. If the plan has none, the text is
// returned unchanged, to the byte.
func (b *build) merged(text string, own map[string]any) string {
	if len(own) == 0 || b.err != nil {
		return text
	}
	out, err := templates.MergeYAML(text, func(base map[string]any) map[string]any { return prune(Merge(base, own)) })
	b.fail(err)
	return out
}
