package rule

import (
	"crypto/tls"

	"nodejoin/plan/block"
	"nodejoin/plan/names"
)

// guard reports arguments of a guard block that have no effect.
func guard(p *block.Plan, m *block.Machine) {
	b, ok := m.Said["guard"]
	switch {
	case !ok:
		return
	case len(p.Written["cluster"]) == 0:
		p.FailOn(m.Name, b.At, "block without effect",
			"Node %q joins no cluster, so it has no service of nodejoin. Remove it.", m.Name)
		return
	}
	if g, given := b.Args["textfile"]; given && m.OS != "" {
		if why := names.BadPath(m.OS, b.Text("textfile")); why != "" {
			p.FailOn(m.Name, g.At, "invalid path", "%q cannot be a file on %s: %s.", b.Text("textfile"), m.OS, why)
		}
	}
	metricsTLS(p, m, b)
	off, given := b.Args["enabled"]
	if !given || !off.Value.False() {
		return
	}
	for _, name := range []string{"interval", "metrics_port", "metrics_certificate", "metrics_key", "textfile"} {
		if g, ok := b.Args[name]; ok {
			p.FailOn(m.Name, g.At, "argument without effect",
				"On node %q the argument %q has no effect: the guard is not enabled. Remove one of the two.", m.Name, name)
		}
	}
}

// metricsTLS checks the certificate of the metrics, its key and their port, which profile and node may give together.
func metricsTLS(p *block.Plan, m *block.Machine, b block.SettingBlock) {
	certificate, given := b.Args["metrics_certificate"]
	key, hasKey := b.Args["metrics_key"]
	_, hasPort := b.Args["metrics_port"]
	switch {
	case !given && !hasKey:
		return
	case !given:
		p.FailOn(m.Name, key.At, "key without certificate",
			"Node %q has no certificate to this key. Give metrics_certificate, too.", m.Name)
		return
	case !hasKey:
		p.FailOn(m.Name, certificate.At, "certificate without key",
			"Node %q has no key to this certificate, so it cannot be used. Give metrics_key, too.", m.Name)
		return
	case !hasPort:
		p.FailOn(m.Name, certificate.At, "argument without effect",
			"Node %q serves its metrics at no port. Give metrics_port, too.", m.Name)
	}
	if _, err := tls.X509KeyPair([]byte(b.Text("metrics_certificate")), []byte(b.Text("metrics_key"))); err != nil {
		p.FailOn(m.Name, certificate.At, "invalid certificate",
			"The certificate and the key of node %q cannot be used: %v. Give both in PEM, for example file(\"node.crt\").",
			m.Name, err)
	}
}
