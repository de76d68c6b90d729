package compat

import "github.com/Masterminds/semver/v3"

// Signature is how upstream signs the file that Artifact returns, keyless: with 'cosign sign-blob', or by an
// attestation of who built it.
type Signature struct {
	Signature, Certificate string // addresses
	Bundle                 string // address of one that has both, or of a file of attestations; "" = the two above
	Subject, Issuer        string // of the certificate
}

// Signed returns the signature of an artifact; ok is false if upstream signs none, or none is known. These have none:
// runc and older releases of containerd (a signed tag, and OpenPGP), the CNI plugins, flannel (its images have
// attestations, its programs none), windows_exporter, crictl, docker, mcr and nssm.
//
// Sources: kubernetes.io/docs/tasks/administer-cluster/verify-signed-artifacts (from Kubernetes 1.26 on);
// containerd/containerd#11049 and its .github/workflows/release.yml (the attestation of all files of a release is one
// of them; on the main branch from November 2024 on, so from 2.1 on).
func Signed(name, version, os, arch string) (s Signature, ok bool) {
	_, address := Artifact(name, version, os, arch)
	v, err := Parse(version)
	switch {
	case address == "" || err != nil:
	case name == KubernetesNode && !v.LessThan(semver.MustParse("1.26.0")):
		return Signature{Signature: address + ".sig", Certificate: address + ".cert",
			Subject: "krel-staging@k8s-releng-prod.iam.gserviceaccount.com", Issuer: "https://accounts.google.com"}, true
	case name == ContainerdName && !v.LessThan(semver.MustParse("2.1.0")):
		const at = "https://github.com/containerd/containerd/"
		return Signature{
			Bundle:  at + "releases/download/v" + v.String() + "/containerd-" + v.String() + "-attestation.intoto.jsonl",
			Subject: at + ".github/workflows/release.yml@refs/tags/v" + v.String(),
			Issuer:  "https://token.actions.githubusercontent.com"}, true
	}
	return s, false
}
