package kinds_test

import (
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
	"nodejoin/steps/kinds"
	"nodejoin/steps/kube"
	"nodejoin/steps/preflight"
	"nodejoin/steps/stepstest"
)

// certificate is what a node joins with in place of a bootstrap token.
func certificate(t *testing.T) string {
	t.Helper()
	cert, key := stepstest.TestCert(t, "system:node:win-1", time.Hour)
	return kube.BootstrapToken{ID: "abcdef", Certificate: cert + key}.Text()
}

// joinScenarios are those of credentials, kubeadm join, gates and the preflight.
func joinScenarios(t *testing.T) []scenario {
	ca := stepstest.TestCA(t)
	kubeconfig := stepstest.Spec("kubeconfig", "conf",
		&kinds.Kubeconfig{Path: `C:\k\x.conf`, Server: "https://192.0.2.1:6443", CA: ca, User: "u",
			Token: "abcdef.0123456789abcdef"})
	tokenFile := stepstest.Spec("token_file", "token", &kinds.TokenFile{Path: `C:\k\x.token`,
		Token: stepstest.TestToken("kube-system", "x", "uid-1", time.Hour), Account: "kube-system/x", NodeUID: "uid-1"})
	ofWorker := stepstest.Service("app", `C:\k\app.exe`)
	ofWorker.DependsOn = []string{"worker"}
	bootstrap := func(token string) []steps.Spec {
		return []steps.Spec{
			stepstest.Spec("file", "exe", &kinds.File{Path: `C:\k\worker.exe`, Content: "w"}),
			stepstest.Spec("file", "app_exe", &kinds.File{Path: `C:\k\app.exe`, Content: "app"}),
			stepstest.Spec("kubeconfig", "boot", &kinds.Kubeconfig{Path: `C:\k\boot.conf`, Server: gateServer, CA: ca,
				User: "b", Token: token, Services: []string{"worker"}}),
			stepstest.Spec("service", "worker", stepstest.Service("worker", `C:\k\worker.exe`)),
			stepstest.Spec("service", "app", ofWorker),
		}
	}
	foreign := stepstest.Spec("kubeconfig", "boot", &kinds.Kubeconfig{Path: `C:\k\boot.conf`, Server: gateServer,
		CA: ca, User: "b", Token: "aaaaaa.0123456789abcdef",
		Backup: []string{`C:\k\kubelet.conf`, `C:\k\pki\current.pem`, `C:\k\none`}})
	authority := stepstest.TestAuthority(t)
	trusted := stepstest.Spec("trusted_ca", "ca",
		&kinds.TrustedCA{Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw}))})
	trusts := func(want bool) func(t *testing.T, h host.Host) {
		return func(t *testing.T, h host.Host) {
			if have, err := h.TrustedCA(t.Context(), authority.Raw); err != nil || have != want {
				t.Errorf("trusted: %v, %v; want %v", have, err, want)
			}
		}
	}

	return []scenario{
		{name: "kubeconfig fresh", list: []steps.Spec{kubeconfig}},
		{name: "kubeconfig drifted", before: []steps.Spec{kubeconfig}, drift: func(t *testing.T, h host.Host) {
			stepstest.Put(t, h, `C:\k\x.conf`, "nonsense: [")
		}, list: []steps.Spec{kubeconfig}},
		{name: "token file fresh", list: []steps.Spec{tokenFile}},
		{name: "token file drifted", before: []steps.Spec{tokenFile}, drift: func(t *testing.T, h host.Host) {
			stepstest.Put(t, h, `C:\k\x.token`, "another")
		}, list: []steps.Spec{tokenFile}},
		{name: "token file open to others", before: []steps.Spec{tokenFile}, drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t, h.SetAccess(t.Context(), `C:\k\x.token`, host.AccessDefault))
		}, list: []steps.Spec{tokenFile}},
		{name: "bootstrap kubeconfig of a running service", before: bootstrap("aaaaaa.0123456789abcdef"),
			list: bootstrap("bbbbbb.0123456789abcdef"), verify: runs("worker", "app")},
		{name: "bootstrap kubeconfig with a certificate", before: bootstrap(certificate(t)),
			list: bootstrap(certificate(t)), verify: func(t *testing.T, h host.Host) {
				runs("worker", "app")(t, h)
				text := stepstest.Text(t, h, `C:\k\boot.conf`)
				fi, err := h.Stat(t.Context(), `C:\k\boot.conf`)
				if !strings.Contains(text, "client-key-data") || strings.Contains(text, "token") || err != nil ||
					fi.Access != host.AccessPrivate {
					t.Errorf("%+v, %v:\n%s", fi, err, text)
				}
			}},
		{name: "bootstrap kubeconfig, foreign credentials", drift: func(t *testing.T, h host.Host) {
			stepstest.Put(t, h, `C:\k\kubelet.conf`, "theirs")
			stepstest.Put(t, h, `C:\k\pki\current.pem`, "theirs too")
		}, list: []steps.Spec{foreign}, verify: func(t *testing.T, h host.Host) {
			holds(`C:\k\kubelet.conf.nodejoin-backup`, "theirs")(t, h)
			holds(`C:\k\pki\current.pem.nodejoin-backup`, "theirs too")(t, h)
		}},
		{name: "kubeadm join fresh", before: kubeadm(ca)[:4], list: kubeadm(ca)[4:], verify: joined},
		{name: "kubeadm join with a certificate", before: kubeadm(ca)[:4],
			list: kubeadmWith(ca, func(k *kinds.KubeadmJoin) { k.Token = certificate(t) })[4:], verify: joined},
		{name: "kubeadm join on Linux", os: "linux", before: kubeadmLinux(ca)[:4], list: kubeadmLinux(ca)[4:],
			verify: joinedLinux},
		{name: "kubeadm join on Linux, kubelet.conf gone", os: "linux", before: kubeadmLinux(ca),
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.Remove(t.Context(), "/etc/kubernetes/kubelet.conf"))
			}, list: kubeadmLinux(ca)[4:], verify: joinedLinux},
		{name: "kubeadm join, kubelet.conf gone", before: kubeadm(ca),
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.Remove(t.Context(), `C:\etc\kubernetes\kubelet.conf`))
			}, list: kubeadm(ca)[4:], verify: joined},
		{name: "kubeadm join, configuration gone", before: kubeadm(ca),
			drift: func(t *testing.T, h host.Host) {
				stepstest.Must(t, h.Remove(t.Context(), `C:\var\lib\kubelet\config.yaml`))
			}, list: kubeadm(ca)[4:], verify: joined},
		{name: "kubeadm join, configuration open to others", before: kubeadm(ca), drift: func(t *testing.T, h host.Host) {
			stepstest.Must(t, h.SetAccess(t.Context(), `C:\var\lib\kubelet\config.yaml`, host.AccessDefault))
		}, list: kubeadm(ca)[4:], verify: joined},
		{name: "kubeadm join, another cluster", before: kubeadm(stepstest.TestCA(t)), list: kubeadm(ca)[4:], verify: joined},
		{name: "kubeadm join, another version", before: kubeadmAt(ca, "1.35.4"), drift: func(t *testing.T, h host.Host) {
			stepstest.Put(t, h, `C:\var\lib\kubelet\config.yaml`, "of the earlier version")
		}, list: kubeadmAt(ca, "1.36.3")[4:], verify: upgradedByKubeadm},
		{name: "kubeadm join, unknown version", before: kubeadm(ca), list: kubeadmAt(ca, "1.36.3")[4:],
			verify: upgradedByKubeadm},
		{name: "kubeadm join, token left", before: kubeadm(ca),
			drift: func(t *testing.T, h host.Host) {
				stepstest.Put(t, h, `C:\etc\kubernetes\nodejoin-kubeadm.yaml`, "tlsBootstrapToken: x")
			}, list: kubeadm(ca)[4:], verify: joined},
		{name: "kubeadm join, other flags", before: kubeadm(ca),
			drift: func(t *testing.T, h host.Host) {
				stepstest.Put(t, h, `C:\var\lib\kubelet\kubeadm-flags.env`,
					`KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=npipe:////./pipe/containerd-containerd --v=3 --config=other"`)
			},
			list: kubeadm(ca)[4:], verify: joined},
		{name: "credentials gate", drift: func(t *testing.T, h host.Host) {
			cert, key := stepstest.TestCert(t, "system:node:win-1", time.Hour)
			stepstest.Put(t, h, gatePEM, cert+key)
			stepstest.Put(t, h, gateConf, clientKubeconfig(gateServer, ca, gatePEM))
		}, list: []steps.Spec{stepstest.Spec("credentials_ready", "g", credentialsGate(ca))}},
		{name: "trusted authority", list: []steps.Spec{trusted}, verify: trusts(true)},
		{name: "trusted authority of Linux, taken out by hand", os: "linux", before: []steps.Spec{trusted},
			drift: func(t *testing.T, h host.Host) { stepstest.Must(t, h.DistrustCA(t.Context(), authority.Raw)) },
			list:  []steps.Spec{trusted}, verify: trusts(true)},
		{name: "file gate", drift: func(t *testing.T, h host.Host) {
			stepstest.Put(t, h, `C:\run\subnet.env`, "FLANNEL_SUBNET=10.244.3.1/24\n")
		},
			list: []steps.Spec{stepstest.Spec("file_ready", "g",
				&kinds.FileReady{Path: `C:\run\subnet.env`, Contains: "FLANNEL_SUBNET="})}},
		{name: "preflight",
			list: []steps.Spec{stepstest.Spec("preflight", "p",
				&preflight.Preflight{OS: "windows", MinBuild: "10.0.17763", Services: []string{"kubelet"},
					Ports: []string{"tcp/10250"}})}},
		{name: "preflight, limited",
			list: []steps.Spec{stepstest.Spec("preflight", "p", &preflight.Preflight{OS: "windows", Path: `C:\`,
				MinFree: "1KiB", Only: []string{"operating-system", "disk-space"}})}},
	}
}
