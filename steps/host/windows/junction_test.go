//go:build windows

package windows

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/windows"

	"nodejoin/steps/host"
	"nodejoin/steps/selftest"
)

// TestForeignOwner: a link that a user owns is foreign, and so is one without an owner. Links of the system and of
// administrators are not.
func TestForeignOwner(t *testing.T) {
	h := newHost(t)
	for sddl, want := range map[string]bool{
		"O:BU": true, "O:WD": true, "O:AU": true, "O:S-1-5-21-1-2-3-1001": true, "G:BA": true, // others, or none
		"O:SY": false, "O:BA": false,
	} {
		sd, err := windows.SecurityDescriptorFromString(sddl)
		if err != nil {
			t.Fatalf("%s: %v", sddl, err)
		}
		have, err := h.foreignOwner(sd)
		if have != want && (err == nil || !want) {
			t.Errorf("%s: %v, %v", sddl, have, err)
		}
	}
}

// TestForeignJunction: a junction that a user made in place of a folder is not private and is not made private. Its
// target does not change. Wine cannot make junctions; there an error that says so is enough.
func TestForeignJunction(t *testing.T) {
	h, dir := newHost(t), tempDir(t)
	target, junction := filepath.Join(dir, "target"), filepath.Join(dir, "junction")
	if err := h.Mkdir(t.Context(), target, host.AccessDefault); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(target, "theirs.txt"), []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := h.Stat(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	switch err := selftest.MakeJunction(junction, target); {
	case underWine() && err != nil:
		t.Log("Wine: ", err)
		return
	case err != nil:
		t.Fatal(err)
	}
	info, err := h.Stat(t.Context(), junction)
	if err != nil || info.Open {
		t.Errorf("a junction of an administrator: %+v, %v", info, err)
	}
	if err := selftest.GiveToUsers(junction); err != nil {
		t.Fatal(err)
	}
	if info, err = h.Stat(t.Context(), junction); err != nil || !info.Open {
		t.Errorf("a junction of a user: %+v, %v", info, err)
	}
	if err := host.Own(t.Context(), h, junction); !errors.Is(err, host.ErrForeign) {
		t.Errorf("own: %v", err)
	}
	for what, err := range map[string]error{
		"set access": h.SetAccess(t.Context(), junction, host.AccessPrivate),
		"mkdir":      h.Mkdir(t.Context(), junction, host.AccessPrivate),
	} {
		if !errors.Is(err, host.ErrForeign) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if after, err := h.Stat(t.Context(), target); err != nil || after.Access != before.Access {
		t.Errorf("the target: %+v, %v", after, err)
	}
	if err := h.Remove(t.Context(), junction); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(target, "theirs.txt")); err != nil || string(b) != "theirs" {
		t.Errorf("the file in the target: %q, %v", b, err)
	}
}
