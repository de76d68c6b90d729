package doctor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/doctor"
	"nodejoin/steps/kinds"
	"nodejoin/steps/stepstest"
)

// token gives the node a token that has the age when it is checked.
func (p *fixture) token(life, age time.Duration) {
	p.list = append(p.list, stepstest.Spec("token_file", "token", &kinds.TokenFile{Path: `C:\x\x.token`, Token: "t",
		Account: "kube-system/x"}))
	p.file(`C:\x\x.token`, stepstest.TestToken("kube-system", "x", "uid", life))
	p.view.Clock = time.Now().Add(age)
}

// TestCertificatesEnd: a certificate is reported in the last tenth of its life.
func TestCertificatesEnd(t *testing.T) {
	cert, key := stepstest.TestCert(t, "system:node:win-1", 10*time.Hour)
	for name, c := range map[string]struct {
		path string
		step steps.Spec
		has  string
	}{
		"CA": {`C:\x\ca.crt`, stepstest.Spec("file", "ca", &kinds.File{Path: `C:\x\ca.crt`, Content: "x"}), "the CA in "},
		"serving": {`C:\x\server.pem`, stepstest.Spec("file_ready", "serving", &kinds.FileReady{Path: `C:\x\server.pem`,
			Contains: "BEGIN CERTIFICATE"}), "the serving certificate in "},
		"client": {`C:\x\client.pem`, stepstest.Spec("credentials_ready", "client", &kinds.CredentialsReady{
			Path: `C:\x\kubelet.conf`, CA: "x"}), `the client certificate in C:\x\client.pem`},
	} {
		t.Run(name, func(t *testing.T) {
			for left, want := range map[time.Duration]string{2 * time.Hour: "", 30 * time.Minute: "credential-ends",
				-time.Minute: "credential-ended"} {
				p := newFixture(t)
				p.list = append(p.list, c.step)
				p.file(c.path, cert+key)
				p.file(`C:\x\kubelet.conf`, "users: [{name: u, user: {client-certificate: 'C:\\x\\client.pem'}}]\nclusters: "+
					"[{name: c}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n")
				p.view.Clock = time.Now().Add(10*time.Hour - left)
				list := p.diagnose().Symptoms
				i := slices.IndexFunc(list, func(s doctor.Symptom) bool { return strings.HasPrefix(s.ID, "credential-") })
				switch {
				case i < 0 && want != "":
					t.Errorf("%v before its end: nothing is found, want %s", left, want)
				case i >= 0 && (list[i].ID != want || !strings.Contains(list[i].Observed, c.has)):
					t.Errorf("%v before its end: %+v, want %s", left, list[i], want)
				}
			}
		})
	}
}
