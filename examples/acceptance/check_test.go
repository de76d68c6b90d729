package acceptance_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestCheck: for a pod with spec.os.name windows, `nodejoin check` and the API server refuse the same fields
// and accept the others.
func TestCheck(t *testing.T) {
	ctx, cancel := bounded(t, 3*time.Minute)
	defer cancel()
	combinations, text := matrix(t)
	newest := strings.Split(combinations[len(combinations)-1], ", ")
	kind, version, _ := strings.Cut(newest[1], " ")
	values := map[string]string{"KUBERNETES": newest[0], "RUNTIME": kind, "RUNTIME_VERSION": version,
		"BACKEND": newest[2], "BUILD": newest[3], "NAMES": "$NAMES"}
	dir := t.TempDir()
	plan, pod := filepath.Join(dir, "a.join.hcl"), filepath.Join(dir, "pod.json")
	if err := os.WriteFile(plan, []byte(os.Expand(text, func(name string) string { return values[name] })),
		0o600); err != nil {
		t.Fatal(err)
	}
	cluster := startCluster(ctx, t)
	// The ids of the findings that correspond to the refusals of the API server.
	check := func(template string) (refused []string) {
		t.Helper()
		if err := os.WriteFile(pod, []byte(template), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(ctx, string(released(t)), "check", "--json", "--plan", plan, pod).Output()
		var r struct {
			Findings []struct{ ID, Observed string }
		}
		if bad := json.Unmarshal(out, &r); bad != nil {
			t.Fatalf("%v, %v: %s", err, bad, out)
		}
		for _, f := range r.Findings {
			if strings.Contains(f.Observed, "the API server rejects it") {
				refused = append(refused, f.ID)
			}
		}
		return refused
	}
	for _, c := range []struct {
		pod, container string // fields
		id             string // "" = the API server takes it
	}{
		{"", "", ""},
		{`"hostPID": true`, "", "host-pid"}, {`"hostPID": false`, "", ""},
		{`"hostIPC": true`, "", "host-ipc"},
		{`"hostUsers": false`, "", "host-users"}, {`"hostUsers": true`, "", "host-users"},
		{`"shareProcessNamespace": true`, "", "share-process-namespace"},
		{`"shareProcessNamespace": false`, "", "share-process-namespace"},
		{`"securityContext": {"seLinuxOptions": {"level": "s0"}}`, "", "se-linux"},
		{`"securityContext": {"seLinuxChangePolicy": "MountOption"}`, "", "se-linux"},
		{`"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}`, "", "seccomp"},
		{`"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}`, "", "app-armor"},
		{`"securityContext": {"fsGroup": 1}`, "", "fs-group"},
		{`"securityContext": {"fsGroupChangePolicy": "Always"}`, "", "fs-group-change-policy"},
		{`"securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}`, "", "sysctls"},
		{`"securityContext": {"sysctls": []}`, "", ""},
		{`"securityContext": {"runAsUser": 1}`, "", "run-as-user"},
		{`"securityContext": {"runAsGroup": 1}`, "", "run-as-group"},
		{`"securityContext": {"supplementalGroups": [1]}`, "", "supplemental-groups"},
		{`"securityContext": {"supplementalGroups": []}`, "", "supplemental-groups"},
		{`"securityContext": {"supplementalGroupsPolicy": "Merge"}`, "", "supplemental-groups-policy"},
		{`"securityContext": {"runAsNonRoot": true, "windowsOptions": {"runAsUserName": "ContainerUser"}}`, "", ""},
		{"", `"seLinuxOptions": {"level": "s0"}`, "se-linux"},
		{"", `"seccompProfile": {"type": "RuntimeDefault"}`, "seccomp"},
		{"", `"appArmorProfile": {"type": "RuntimeDefault"}`, "app-armor"},
		{"", `"runAsUser": 1`, "run-as-user"},
		{"", `"runAsGroup": 1`, "run-as-group"},
		{"", `"capabilities": {"add": ["NET_ADMIN"]}`, "capabilities"},
		{"", `"readOnlyRootFilesystem": true`, "read-only-root"}, {"", `"readOnlyRootFilesystem": false`, "read-only-root"},
		{"", `"privileged": true`, "privileged"}, {"", `"privileged": false`, "privileged"},
		{"", `"allowPrivilegeEscalation": false`, "privilege-escalation"},
		{"", `"procMount": "Default"`, "proc-mount"},
	} {
		fields := `"os": {"name": "windows"}, "restartPolicy": "Always", "tolerations": [{"operator": "Exists"}]`
		if c.pod != "" {
			fields += ", " + c.pod
		}
		template := `{"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a", "namespace": "default"}, ` +
			`"template": {"metadata": {"labels": {"a": "b"}}, "spec": {` +
			fields + `, "containers": [{"name": "a", "image": "a", "securityContext": {` + c.container + `}}]}}}`
		var want []string
		if c.id != "" {
			want = []string{c.id}
		}
		if have := check(template); !slices.Equal(have, want) {
			t.Errorf("%s%s: check says %v, want %v", c.pod, c.container, have, want)
		}
		err := cluster.Client.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/default/podtemplates").Param("dryRun",
			"All").Param("fieldValidation", "Strict").
			SetHeader("Content-Type", "application/json").Body([]byte(template)).Do(ctx).Error()
		switch {
		case c.id == "" && err != nil:
			t.Errorf("%s%s: %v", c.pod, c.container, err)
		case c.id != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "cannot be set for a windows pod")):
			t.Errorf("%s%s: the API server says %v", c.pod, c.container, err)
		}
	}
}
