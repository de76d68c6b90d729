package planbundle

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"strings"
	"time"

	"nodejoin/cmd/nodejoin/internal/atomicfile"
	"nodejoin/plan"
	"nodejoin/plan/lock"
	"nodejoin/plan/sbom"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
)

// bill is the bill of materials of a plan (SPDX, JSON): what each of its nodes gets, by the lock. The same plan gives
// the same bytes, so that it has no time of its own.
func bill(p *plan.Compiled, version string) ([]byte, error) {
	name := "nodes"
	if p.Cluster != nil {
		name = p.Cluster.Name
	}
	of := text("", p.Lock.Format()).SHA256
	d := sbom.New(name, of, "nodejoin-"+version, time.Unix(0, 0))
	for _, n := range p.Nodes {
		node := "node-" + n.Name
		d.Describe(sbom.Of(node, n.Name, "", ""))
		for _, s := range n.Steps {
			if src, ok := kinds.Installs(s); ok {
				d.Contain(node, installed(p, s, src))
			}
		}
		i := plan.Image{OS: n.OS, Arch: n.Arch, Build: n.Build}
		if parts := strings.SplitN(n.Build, ".", 4); len(parts) > 3 {
			i.Build = strings.Join(parts[:3], ".")
		}
		for _, e := range p.Lock.Images {
			if i.Name = e.Name; i.LockedAs(e) {
				d.Contain(node, imaged(e))
			}
		}
	}
	return d.JSON()
}

// WriteBill writes the bill of materials of a plan into a file.
func WriteBill(file string, p *plan.Compiled, version string) error {
	text, err := bill(p, version)
	if err != nil {
		return err
	}
	return atomicfile.Write(file, text, 0o644)
}

// installed is what a step installs.
func installed(p *plan.Compiled, s steps.Spec, src steps.Source) sbom.Package {
	algorithm, digest := src.Digest()
	name, version, address := s.ID, "", src.URL
	if a, e := lockedAs(p, src); e != nil {
		name, version, address = a.Name, e.Version, e.Address
	}
	address = steps.ShowURL(address)
	purl := "pkg:generic/" + url.PathEscape(name)
	if version != "" {
		purl += "@" + url.PathEscape(version)
	}
	q := url.Values{"checksum": {algorithm + ":" + digest}}
	out := sbom.Of("file-"+digest, cmp.Or(name, path.Base(src.Name())), version, "")
	if strings.HasPrefix(address, "https://") || strings.HasPrefix(address, "http://") {
		out.Location = address
		q.Set("download_url", address)
	}
	out.Refs = []sbom.Reference{{Category: "PACKAGE-MANAGER", Type: "purl", Locator: purl + "?" + q.Encode()}}
	out.Checksums = []sbom.Checksum{{Algorithm: strings.ToUpper(algorithm), Value: digest}}
	return out
}

// imaged is a container image.
func imaged(e lock.Image) sbom.Package {
	full := fullName(e.Name)
	repository, tag, _ := strings.Cut(full[strings.LastIndex(full, "/")+1:], ":")
	repository, _, _ = strings.Cut(repository, "@")
	q := url.Values{"repository_url": {full[:strings.LastIndex(full, "/")+1] + repository}}
	if tag != "" && !strings.Contains(full, "@") {
		q.Set("tag", tag)
	}
	digest := strings.TrimPrefix(e.Digest, "sha256:")
	out := sbom.Of("image-"+digest, e.Name, "", fmt.Sprintf("pkg:oci/%s@%s?%s", repository, url.QueryEscape(e.Digest),
		q.Encode()))
	out.Checksums = []sbom.Checksum{{Algorithm: "SHA256", Value: digest}}
	return out
}

// lockedAs is the artifact of a source, and what the lock says of it; nil = the lock does not have it.
func lockedAs(p *plan.Compiled, src steps.Source) (plan.Artifact, *lock.Entry) {
	for _, a := range p.Artifacts {
		e := p.Lock.Lookup(a.Name, a.Platform())
		if e != nil && (src.SHA256 != "" && e.SHA256 == src.SHA256 || src.SHA256 == "" && e.SHA512 == src.SHA512) {
			return a, e
		}
	}
	return plan.Artifact{}, nil
}
