package acceptance_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestCheck: of a corpus of pods, `nodejoin check` and the API server refuse the same ones and accept the others.
func TestCheck(t *testing.T) {
	program := string(released(t)) // built outside of the bound
	ctx, cancel := bounded(t, 3*time.Minute)
	defer cancel()
	combinations, text := matrix(t)
	newest := strings.Split(combinations[len(combinations)-1], ", ")
	kind, version, _ := strings.Cut(newest[1], " ")
	values := map[string]string{"KUBERNETES": newest[0], "RUNTIME": kind, "RUNTIME_VERSION": version,
		"BACKEND": newest[2], "BUILD": newest[3], "NAMES": "$NAMES"}
	dir := t.TempDir()
	plan := filepath.Join(dir, "a.join.hcl")
	if err := os.WriteFile(plan, []byte(os.Expand(text, func(name string) string { return values[name] })),
		0o600); err != nil {
		t.Fatal(err)
	}
	cluster := startCluster(ctx, t)
	cases := []podCase{
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
	}
	cases = append(cases, accountCases...)
	cases = append(cases, otherCases...)
	if len(cases) < 60 {
		t.Errorf("the corpus has %d pods, want 60", len(cases))
	}
	args := []string{"check", "--json", "--plan", plan}
	for i, c := range cases {
		file := filepath.Join(dir, fmt.Sprintf("pod-%d.json", i))
		if err := os.WriteFile(file, []byte(c.template()), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	out, err := exec.CommandContext(ctx, program, args...).Output()
	var r struct {
		Findings []struct{ File, ID, Observed, Why string }
	}
	if bad := json.Unmarshal(out, &r); bad != nil {
		t.Fatalf("%v, %v: %s", err, bad, out)
	}
	// The ids of the findings that correspond to the refusals of the API server, by file.
	refused := map[string][]string{}
	for _, f := range r.Findings {
		if strings.Contains(f.Observed+f.Why, "the API server rejects") {
			refused[f.File] = append(refused[f.File], f.ID)
		}
	}
	for i, c := range cases {
		var want []string
		if c.id != "" {
			want = []string{c.id}
		}
		if have := refused[args[4+i]]; !slices.Equal(have, want) {
			t.Errorf("%s%s: check says %v, want %v", c.pod, c.container, have, want)
		}
		err := cluster.Client.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/default/podtemplates").Param("dryRun",
			"All").Param("fieldValidation", "Strict").
			SetHeader("Content-Type", "application/json").Body([]byte(c.template())).Do(ctx).Error()
		switch {
		case c.id == "" && err != nil:
			t.Errorf("%s%s: %v", c.pod, c.container, err)
		case c.id != "" && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err):
			t.Errorf("%s%s: the API server says %v", c.pod, c.container, err)
		}
	}
}

// podCase is a pod of the corpus.
type podCase struct {
	pod, container string // fields of its specification and of its container's security context
	id             string // of the finding; "" = the API server takes it
}

// template is a PodTemplate of it.
func (c podCase) template() string {
	fields := `"restartPolicy": "Always", "tolerations": [{"operator": "Exists"}]`
	if !strings.Contains(c.pod, `"os": `) {
		fields = `"os": {"name": "windows"}, ` + fields
	}
	if c.pod != "" {
		fields += ", " + c.pod
	}
	return `{"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a", "namespace": "default"}, ` +
		`"template": {"metadata": {"labels": {"a": "b"}}, "spec": {` +
		fields + `, "containers": [{"name": "a", "image": "a", "securityContext": {` + c.container + `}}]}}}`
}

// windowsOption is a pod with one field of windowsOptions.
func windowsOption(field, id string) podCase {
	return podCase{container: `"windowsOptions": {` + field + `}`, id: id}
}

// accountCases are about the accounts of containers.
var accountCases = []podCase{
	windowsOption(`"runAsUserName": "ContainerUser"`, ""),
	windowsOption(`"runAsUserName": "NT AUTHORITY\\SYSTEM"`, ""),
	windowsOption(`"runAsUserName": "corp.example\\web$"`, ""),
	windowsOption(`"runAsUserName": "`+strings.Repeat("u", 104)+`"`, ""),
	windowsOption(`"runAsUserName": "`+strings.Repeat("u", 105)+`"`, "run-as-user-name"),
	windowsOption(`"runAsUserName": "`+strings.Repeat("a.", 127)+`b\\u"`, ""),
	windowsOption(`"runAsUserName": "`+strings.Repeat("a.", 127)+`bc\\u"`, "run-as-user-name"),
	windowsOption(`"runAsUserName": ""`, "run-as-user-name"),
	windowsOption(`"runAsUserName": "bad\\user\\name"`, "run-as-user-name"),
	windowsOption(`"runAsUserName": "a*\\b"`, "run-as-user-name"),
	windowsOption(`"runAsUserName": "corp.example\\"`, "run-as-user-name"),
	windowsOption(`"runAsUserName": "\\u"`, "run-as-user-name"),
	windowsOption(`"runAsUserName": " . "`, "run-as-user-name"),
	windowsOption(`"runAsUserName": "a@b"`, "run-as-user-name"),
	windowsOption(`"runAsUserName": "a\u0007"`, "run-as-user-name"),
	windowsOption(`"gmsaCredentialSpecName": "web"`, ""),
	windowsOption(`"gmsaCredentialSpecName": "Web_1"`, "gmsa"),
	windowsOption(`"gmsaCredentialSpecName": ""`, "gmsa"),
	windowsOption(`"gmsaCredentialSpec": ""`, "gmsa"),
	windowsOption(`"gmsaCredentialSpec": "{"`, ""), // the container does not start
	windowsOption(`"gmsaCredentialSpec": "`+strings.Repeat("g", 64<<10+1)+`"`, "gmsa"),
	{`"os": {"name": "linux"}, "securityContext": {"runAsUser": 1}`, "", ""},
	{`"os": {"name": "linux"}, "securityContext": {"windowsOptions": {"runAsUserName": "ContainerUser"}}`, "",
		"windows-options"},
	{`"os": {"name": "linux"}`, `"windowsOptions": {"runAsUserName": "ContainerUser"}`, "windows-options"},
}

// otherCases are about HostProcess and volumes; the API server takes many that the node does not.
var otherCases = []podCase{
	{`"hostNetwork": true, "securityContext": {"windowsOptions": {"hostProcess": true}}`, "", ""},
	{`"securityContext": {"windowsOptions": {"hostProcess": true}}`, "", "host-process-network"},
	{`"hostNetwork": true, "securityContext": {"windowsOptions": {"hostProcess": true}}`,
		`"windowsOptions": {"hostProcess": false}`, "host-process-mixed"},
	{`"hostNetwork": true`, "", ""},
	{`"dnsPolicy": "ClusterFirstWithHostNet"`, "", ""},
	{`"volumes": [{"name": "v", "flexVolume": {"driver": "microsoft.com/smb.cmd"}}]`, "", ""},
	{`"volumes": [{"name": "v", "nfs": {"server": "a", "path": "/"}}]`, "", ""},
	{`"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]`, "", ""},
	{`"volumes": [{"name": "v", "hostPath": {"path": "/dev/null", "type": "CharDevice"}}]`, "", ""},
	{`"volumes": [{"name": "v", "secret": {"secretName": "s", "defaultMode": 256}}]`, "", ""},
}
