//go:build linux

package linux

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nodejoin/steps/host"
)

func TestUnitText(t *testing.T) {
	c := host.ServiceConfig{Name: "kubelet", DisplayName: "kubelet", Description: "100% agent (managed by nodejoin)",
		Start:   host.StartAuto,
		Command: []string{"/usr/local/bin/kubelet", "--a=$B %n", `c"d\e`, "", "ü\n"}, DependsOn: []string{"containerd"},
		Environment: []string{"SECRET=hidden"},
		Recovery:    []host.RecoveryAction{{Action: "restart", Delay: 5 * time.Second}}}
	have, err := unitText(c, "/etc/environment", "/var/lib/nodejoin/services/kubelet.env")
	if err != nil {
		t.Fatal(err)
	}
	want := unitHead + `[Unit]
Description=100%% agent (managed by nodejoin)
Wants=network-online.target
After=network-online.target
Requires=containerd.service
After=containerd.service
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart="/usr/local/bin/kubelet" "--a=$$B %%n" "c\"d\\e" "" "ü\x0a"
EnvironmentFile=-/etc/environment
EnvironmentFile=/var/lib/nodejoin/services/kubelet.env
Delegate=yes
KillMode=process
TasksMax=infinity
Restart=always
RestartSec=5000ms

[Install]
WantedBy=multi-user.target

[X-Nodejoin]
Definition={"name":"kubelet","display_name":"kubelet","description":"100% agent (managed by nodejoin)",` +
		`"command":["/usr/local/bin/kubelet","--a=$B %n","c\"d\\e","","ü\n"],"start":"auto",` +
		`"depends_on":["containerd"],"recovery":[{"action":"restart","delay":5000000000}]}
`
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("(-want +have):\n%s", diff)
	}
	back, ok := unitDefinition(have, "kubelet")
	if back.Environment = c.Environment; !ok || cmp.Diff(c, back) != "" {
		t.Errorf("%v %s", ok, cmp.Diff(c, back))
	}
	if _, ok := unitDefinition(have, "other"); ok {
		t.Error("the unit of another name counts as ours")
	}
}

func TestEnvironmentText(t *testing.T) {
	env := []string{"A=", `B=a "b" \c $d ` + "`e`", "C=x=y", "D=ünï"}
	text, err := environmentText(env)
	if err != nil || !slices.Equal(environmentOf(text), env) {
		t.Errorf("%v\n%s%q", err, text, environmentOf(text))
	}
	if _, err := environmentText([]string{"A=two\nlines"}); err == nil {
		t.Error("a line break was written")
	}
}
