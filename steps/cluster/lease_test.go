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
	var asked []string // methods of requests
	a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		const path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
		asked = append(asked, r.Method)
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
			if have == nil {
				status(w, 404, metav1.StatusReasonNotFound, "no")
				return
			}
			var o metav1.DeleteOptions
			err := json.NewDecoder(r.Body).Decode(&o)
			if err != nil || *o.Preconditions.ResourceVersion != have.ResourceVersion {
				status(w, 409, metav1.StatusReasonConflict, "the precondition failed")
				return
			}
			have = nil
			reply(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success"})
			return
		default:
			writes++
			var l coordinationv1.Lease
			if err := json.NewDecoder(r.Body).Decode(&l); err != nil {
				t.Error(err)
			}
			switch {
			case have != nil && r.Method == http.MethodPost:
				status(w, 409, metav1.StatusReasonAlreadyExists, "there is one")
				return
			case have == nil && r.Method == http.MethodPut:
				status(w, 404, metav1.StatusReasonNotFound, "no")
				return
			case have != nil && l.ResourceVersion != have.ResourceVersion:
				status(w, 409, metav1.StatusReasonConflict, "the object has been modified")
				return
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
	requests := func(what, want string) {
		t.Helper()
		if have := strings.Join(asked, " "); have != want {
			t.Errorf("%s: asked %s, want %s", what, have, want)
		}
		asked = nil
	}
	take("made", "1", "", "", nil)
	take("renewed", "1", "", "", nil)
	requests("its own Lease", "POST PUT")
	take("another's", "2", "", "1", kube.ErrHeld)
	requests("another's", "POST GET")
	conflicts = 2
	take("of one that is gone, after conflicts", "2", "1", "1", nil)
	requests("after conflicts", "POST GET PUT GET PUT")
	old := metav1.NewMicroTime(now.Add(-61 * time.Second))
	have.Spec.RenewTime = &old
	take("run out", "3", "", "2", nil)
	requests("run out", "POST GET PUT")
	release := func(holder string) {
		t.Helper()
		if err := a.ReleaseLease(ctx, "nodejoin-x", holder); err != nil {
			t.Error(err)
		}
	}
	if release("2"); have == nil {
		t.Error("another's was released")
	}
	take("once more", "3", "", "", nil)
	asked = nil
	if release("3"); have != nil {
		t.Errorf("not released: %v", have)
	}
	requests("its own", "DELETE")
	release("3")
	requests("absent", "GET")
	take("made", "4", "", "", nil)
	have.ResourceVersion = "of another writer"
	asked = nil
	take("renewed after somebody has written it", "4", "", "", nil)
	requests("written by others", "PUT GET PUT")
	have.ResourceVersion = "of another writer"
	asked = nil
	if release("4"); have != nil {
		t.Errorf("not released: %v", have)
	}
	requests("written by others", "DELETE GET DELETE")
	take("made", "5", "", "", nil)
	have, asked = nil, nil
	take("after somebody has deleted it", "5", "", "", nil)
	requests("deleted by others", "PUT GET POST")
	have, asked = nil, nil
	release("5")
	requests("deleted by others", "DELETE")
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
