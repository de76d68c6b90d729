package compat

import "github.com/Masterminds/semver/v3"

// Signature is how upstream signs the file that Artifact returns: with 'cosign sign-blob', keyless.
type Signature struct {
	Signature, Certificate string // addresses
	Subject, Issuer        string // of the certificate
}

// Signed returns the signature of an artifact; ok is false if upstream signs none, or none is known. These have none:
// containerd and runc (a signed tag, and OpenPGP), the CNI plugins, flannel (its images have attestations, its
// programs none), windows_exporter, crictl, docker, mcr and nssm.
//
// Source: kubernetes.io/docs/tasks/administer-cluster/verify-signed-artifacts (from Kubernetes 1.26 on).
func Signed(name, version, os, arch string) (s Signature, ok bool) {
	_, address := Artifact(name, version, os, arch)
	v, err := Parse(version)
	if name != KubernetesNode || address == "" || err != nil || v.LessThan(semver.MustParse("1.26.0")) {
		return s, false
	}
	return Signature{Signature: address + ".sig", Certificate: address + ".cert",
		Subject: "krel-staging@k8s-releng-prod.iam.gserviceaccount.com", Issuer: "https://accounts.google.com"}, true
}
