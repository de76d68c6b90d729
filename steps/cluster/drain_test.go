package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nodejoin/steps/kube"
)

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func TestPods(t *testing.T) {
	yes := true
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "web", UID: "1",
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: &yes}}},
			Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "tmp",
				VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "static", UID: "2",
			Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}}},
	}}
	last := corev1.PodList{TypeMeta: list.TypeMeta,
		Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "job", UID: "3"},
			Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}}}
	list.Continue = "more"
	a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("fieldSelector") != "spec.nodeName=win-1" {
			t.Errorf("asked %s", r.URL)
		}
		if r.URL.Query().Get("continue") == "more" {
			reply(w, last)
			return
		}
		reply(w, list)
	})
	have, err := a.Pods(t.Context(), "win-1")
	want := []kube.Pod{{Namespace: "a", Name: "job", UID: "3", Finished: true},
		{Namespace: "a", Name: "static", UID: "2", Mirror: true},
		{Namespace: "b", Name: "web", UID: "1", Controller: "ReplicaSet", Owner: "web", EmptyDir: true}}
	if diff := cmp.Diff(want, have); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestEvict(t *testing.T) {
	budget := metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause}}}
	for name, c := range map[string]struct {
		code   int
		status metav1.Status
		want   error
	}{
		"taken": {201, metav1.Status{Status: "Success"}, nil},
		"budget": {429, metav1.Status{Status: "Failure", Reason: metav1.StatusReasonTooManyRequests, Details: &budget},
			kube.ErrBudget},
		"busy": {429, metav1.Status{Status: "Failure", Reason: metav1.StatusReasonTooManyRequests},
			kube.ErrUnreachable},
		"gone":     {404, metav1.Status{Status: "Failure", Reason: metav1.StatusReasonNotFound}, nil},
		"another":  {409, metav1.Status{Status: "Failure", Reason: metav1.StatusReasonConflict}, nil},
		"no right": {403, metav1.Status{Status: "Failure", Reason: metav1.StatusReasonForbidden}, kube.ErrForbidden},
		"no API there": {503, metav1.Status{Status: "Failure", Reason: metav1.StatusReasonServiceUnavailable},
			kube.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/d/pods/web/eviction" ||
					!strings.Contains(string(body), `"preconditions":{"uid":"u1"}`) || !strings.Contains(string(body), "policy/v1") {
					t.Errorf("%s %s %s", r.Method, r.URL.Path, body)
				}
				c.status.Kind, c.status.APIVersion, c.status.Code = "Status", "v1", int32(c.code)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.code)
				_ = json.NewEncoder(w).Encode(c.status)
			})
			if err := a.Evict(t.Context(), kube.Pod{Namespace: "d", Name: "web", UID: "u1"}); !errors.Is(err, c.want) ||
				c.want == nil && err != nil {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// The Node is deleted only if it is still the object that was read.
func TestDeleteNode(t *testing.T) {
	for name, c := range map[string]struct {
		code int
		want error
	}{"there": {200, nil}, "gone": {404, nil}, "another of that name": {409, kube.ErrChanged}} {
		t.Run(name, func(t *testing.T) {
			a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.Method != http.MethodDelete || !strings.Contains(string(body), `"preconditions":{"uid":"u1"}`) {
					t.Errorf("%s %s", r.Method, body)
				}
				switch c.code {
				case 200:
					reply(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success"})
				case 404:
					status(w, 404, metav1.StatusReasonNotFound, "no")
				case 409:
					status(w, 409, metav1.StatusReasonConflict, "uid")
				}
			})
			if err := a.DeleteNode(t.Context(), "win-1", "u1"); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%v, want %v", err, c.want)
			}
			if err := a.DeleteNode(t.Context(), "win-1", ""); !errors.Is(err, kube.ErrChanged) {
				t.Errorf("without a UID: %v", err)
			}
		})
	}
}

// Cordon and Uncordon change only what is nodejoin's, and retry after a conflict.
func TestCordon(t *testing.T) {
	node := corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "win-1", UID: "u1", ResourceVersion: "7"}}
	conflicts, patches := 1, 0
	a, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			reply(w, node)
			return
		}
		if conflicts > 0 {
			conflicts--
			status(w, 409, metav1.StatusReasonConflict, "the object has been modified")
			return
		}
		patches++
		var p struct {
			Metadata struct {
				UID, ResourceVersion string
				Annotations          map[string]*string
			}
			Spec map[string]*bool
		}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &p); err != nil || p.Metadata.UID != "u1" || p.Metadata.ResourceVersion != "7" {
			t.Errorf("patch %s: %v", body, err)
		}
		if v, named := p.Spec["unschedulable"]; named {
			node.Spec.Unschedulable = v != nil && *v
			node.ManagedFields = nil
			if node.Spec.Unschedulable {
				node.ManagedFields = cordoner("nodejoin")
			}
		}
		node.Annotations = map[string]string{}
		for key, v := range p.Metadata.Annotations {
			if v != nil {
				node.Annotations[key] = *v
			}
		}
		reply(w, node)
	})
	do := func(what string, err error, unschedulable bool, annotation string, wantPatches int) {
		t.Helper()
		have := fmt.Sprint(err, node.Spec.Unschedulable, node.Annotations[kube.CordonedBy], patches)
		if want := fmt.Sprint(nil, unschedulable, annotation, wantPatches); have != want {
			t.Errorf("%s: %s, want %s", what, have, want)
		}
	}
	ctx := t.Context()
	do("cordon", a.Cordon(ctx, "win-1", "leave"), true, "leave", 1)
	do("again", a.Cordon(ctx, "win-1", "upgrade"), true, "leave", 1)
	do("uncordon", a.Uncordon(ctx, "win-1"), false, "", 2)
	do("again", a.Uncordon(ctx, "win-1"), false, "", 2)
	node.Spec.Unschedulable = true
	do("cordon of somebody else's", a.Cordon(ctx, "win-1", "leave"), true, "", 2)
	do("uncordon of somebody else's", a.Uncordon(ctx, "win-1"), true, "", 2)
	own := func(want string) {
		t.Helper()
		if n, err := a.Node(ctx, "win-1"); err != nil || n.OwnCordon != want {
			t.Errorf("own cordon: %q, %v; want %q", n.OwnCordon, err, want)
		}
	}
	own("")

	node.Spec.Unschedulable = false
	do("cordon", a.Cordon(ctx, "win-1", "upgrade"), true, "upgrade", 3)
	own("upgrade")
	node.ManagedFields = nil // of a server that keeps none
	own("upgrade")
	node.ManagedFields = cordoner("kubectl-cordon") // somebody has uncordoned it, and cordoned it again
	own("")
	do("uncordon of somebody else's, under our note", a.Uncordon(ctx, "win-1"), true, "", 4)
	do("again", a.Uncordon(ctx, "win-1"), true, "", 4)
}

// cordoner is the managed fields of a Node that manager made unschedulable.
func cordoner(manager string) []metav1.ManagedFieldsEntry {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
	}
	return []metav1.ManagedFieldsEntry{entry("nodejoin",
		`{"f:metadata":{"f:annotations":{"f:nodejoin.dev/cordoned":{}}}}`),
		entry(manager, `{"f:spec":{"f:unschedulable":{}}}`)}
}
