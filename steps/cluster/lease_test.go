package cluster

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

// A Lease is created, renewed, refused, taken over and deleted. The second of two writers
// reads it again.
func TestLease(t *testing.T) {
	var have *coordinationv1.Lease
	conflicts, writes := 0, 0
	a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		const path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
		if r.URL.Path != path && r.URL.Path != path+"/nodejoin-x" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		if r.Method != http.MethodGet && conflicts > 0 {
			conflicts--
			status(w, 409, metav1.StatusReasonConflict, "the object has been modified")
			return
		}
		switch r.Method {
		case http.MethodGet:
			if have == nil {
				status(w, 404, metav1.StatusReasonNotFound, "no")
				return
			}
		case http.MethodDelete:
			have = nil
			reply(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success"})
			return
		default:
			writes++
			var l coordinationv1.Lease
			if err := json.NewDecoder(r.Body).Decode(&l); err != nil {
				t.Error(err)
			}
			if have != nil && l.ResourceVersion != have.ResourceVersion {
				t.Errorf("written over %q with %q", have.ResourceVersion, l.ResourceVersion)
			}
			l.TypeMeta, l.ResourceVersion, l.UID = metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"},
				strings.Repeat("i", writes), "u"
			have = &l
		}
		reply(w, have)
	})
	ctx, now := t.Context(), time.Now().Truncate(time.Second)
	lease := func(holder string, renewed time.Time) kube.Lease {
		return kube.Lease{Name: "nodejoin-x", Holder: holder, Note: "note of " + holder, Duration: time.Minute,
			Renewed: renewed}
	}
	take := func(what, holder, from string, wantBefore string, wantErr error) {
		t.Helper()
		before, err := a.TakeLease(ctx, lease(holder, now), from)
		if !errors.Is(err, wantErr) || wantErr == nil && err != nil || before.Holder != wantBefore {
			t.Errorf("%s: %+v, %v", what, before, err)
		}
		if wantBefore != "" && (before.Note != "note of "+wantBefore || before.Duration != time.Minute) {
			t.Errorf("%s: it was %+v", what, before)
		}
		if wantErr == nil && (have == nil || *have.Spec.HolderIdentity != holder ||
			have.Annotations[kube.LeaseNote] != "note of "+holder || !have.Spec.RenewTime.Time.Equal(now)) {
			t.Errorf("%s: it is %+v", what, have)
		}
	}
	take("made", "1", "", "", nil)
	take("renewed", "1", "", "", nil)
	take("another's", "2", "", "1", kube.ErrHeld)
	conflicts = 2
	take("of one that is gone, after conflicts", "2", "1", "1", nil)
	old := metav1.NewMicroTime(now.Add(-61 * time.Second))
	have.Spec.RenewTime = &old
	take("run out", "3", "", "2", nil)
	if err := a.ReleaseLease(ctx, "nodejoin-x", "2"); err != nil || have == nil {
		t.Errorf("released another's: %v, %v", have, err)
	}
	if err := a.ReleaseLease(ctx, "nodejoin-x", "3"); err != nil || have != nil {
		t.Errorf("released: %v, %v", have, err)
	}
	if err := a.ReleaseLease(ctx, "nodejoin-x", "3"); err != nil {
		t.Errorf("absent: %v", err)
	}
}

// A forbidden Lease is not reported as held.
func TestLeaseForbidden(t *testing.T) {
	a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		status(w, 403, metav1.StatusReasonForbidden, "no leases")
	})
	if _, err := a.TakeLease(t.Context(), kube.Lease{Name: "nodejoin-x", Holder: "1", Duration: time.Minute},
		""); !errors.Is(err, kube.ErrForbidden) || errors.Is(err, kube.ErrHeld) {
		t.Errorf("%v", err)
	}
}
