package kube_test

import (
	"testing"

	"nodejoin/steps/kube"
)

// kubectl computes the same id for the parent: sha256 of "nodejoin-demo.kube-system.ConfigMap.", in the
// URL-safe alphabet of base64 without padding.
func TestApplySetID(t *testing.T) {
	id := (kube.ApplySet{Plan: "demo"}).ID()
	if id != "applyset-hq8sxeARbNoTrfMZuZIDyMg9NWMWYEJV_XfshzgMDDQ-v1" || len(id) > 63 {
		t.Errorf("the id is %q", id)
	}
}
