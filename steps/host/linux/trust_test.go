//go:build linux

package linux

import (
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"nodejoin/steps/host"
	"nodejoin/steps/host/hosttest"
)

// An authority whose change was interrupted counts as added by nodejoin, but not as
// trusted. Removing it leaves nothing, wherever the change stopped.
func TestTrustInterrupted(t *testing.T) {
	ca := hosttest.Authority(t, "nodejoin test")
	broken := func(call func(h *Host) error) func(t *testing.T, h *Host) {
		return func(t *testing.T, h *Host) {
			program := h.trust[0].program
			h.trust[0].program = "/bin/false"
			if err := call(h); err == nil {
				t.Error("the update failed, but the call succeeded")
			}
			h.trust[0].program = program
		}
	}
	trust := func(h *Host) error { return h.TrustCA(t.Context(), ca) }
	distrust := func(h *Host) error { return h.DistrustCA(t.Context(), ca) }
	for name, halfway := range map[string]func(t *testing.T, h *Host){
		"before the update": broken(trust),
		"while it is written": func(t *testing.T, h *Host) {
			if err := os.WriteFile(host.TempName(h.trust[0].anchor(ca)), []byte("-----BEGIN"), 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"taken out, before the update": func(t *testing.T, h *Host) {
			if err := trust(h); err != nil {
				t.Fatal(err)
			}
			broken(distrust)(t, h)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			want := func(step string, trusted, added bool) {
				t.Helper()
				haveTrusted, err := h.TrustedCA(t.Context(), ca)
				haveAdded, err2 := h.AddedCA(t.Context(), ca)
				if err := errors.Join(err, err2); err != nil || haveTrusted != trusted || haveAdded != added {
					t.Errorf("%s: trusted %v, added %v, %v; want %v, %v", step, haveTrusted, haveAdded, err, trusted, added)
				}
			}
			halfway(t, h)
			want("halfway", false, true)
			if err := distrust(h); err != nil {
				t.Fatal(err)
			}
			want("taken out", false, false)
			if list, err := os.ReadDir(h.trust[0].anchors); err != nil || len(list) > 0 {
				t.Errorf("left: %v, %v", list, err)
			}
			halfway(t, h)
			if err := trust(h); err != nil {
				t.Fatal(err)
			}
			want("added again", true, true)
			if list, err := os.ReadDir(h.trust[0].anchors); err != nil || len(list) != 1 {
				t.Errorf("in the folder: %v, %v; want the certificate alone", list, err)
			}
		})
	}
}

// An authority that somebody else trusts as well stays trusted, and is not ours.
func TestTrustedByOthers(t *testing.T) {
	h := newHost(t)
	ca := hosttest.Authority(t, "nodejoin test")
	theirs := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca})
	err := errors.Join(h.TrustCA(t.Context(), ca),
		os.WriteFile(filepath.Join(h.trust[0].anchors, "theirs.crt"), theirs, 0o644), h.DistrustCA(t.Context(), ca))
	trusted, err2 := h.TrustedCA(t.Context(), ca)
	added, err3 := h.AddedCA(t.Context(), ca)
	if err := errors.Join(err, err2, err3); err != nil || !trusted || added {
		t.Errorf("trusted %v, added %v, %v; want trusted alone", trusted, added, err)
	}
}
