package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/host"
)

// Metrics is the state in Prometheus' text format, version 0.0.4
// (prometheus.io/docs/instrumenting/exposition_formats).
func Metrics(node string, s steps.GuardState, paused bool) string {
	var b strings.Builder
	metric := func(name, kind, help string, value float64, labels ...string) {
		if kind != "" {
			fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
		}
		b.WriteString(name)
		for i := 0; i < len(labels); i += 2 {
			fmt.Fprintf(&b, `%c%s="%s"`, "{,"[min(i, 1)], labels[i], labelText.Replace(labels[i+1]))
		}
		if len(labels) > 0 {
			b.WriteByte('}')
		}
		b.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
	}
	number := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	seconds := func(t time.Time) float64 { return float64(t.Unix()) }
	const p = "nodejoin_guard_"
	metric(p+"in_order", "gauge", "Whether the last check of the node found nothing wrong.",
		number(len(s.Problems) == 0), "node", node)
	metric(p+"paused", "gauge", "Whether an operator has paused the guard.", number(paused), "node", node)
	metric(p+"last_check_timestamp_seconds", "gauge", "When the node was last checked.", seconds(s.At), "node", node)
	metric(p+"checks_total", "counter", "Checks of the node.", float64(s.Checks), "node", node)
	metric(p+"fixes_total", "counter", "Fixes that changed the node.", float64(s.Fixes), "node", node)
	metric(p+"failures_total", "counter", "Fixes and renewals of tokens that failed.", float64(s.Failures), "node", node)
	metric(p+"token_renewals_total", "counter", "Renewals of tokens.", float64(s.Renewals), "node", node)
	kind := "gauge"
	for _, problem := range s.Problems {
		metric(p+"problem_since_timestamp_seconds", kind, "Since when a step or check of the node is not in order.",
			seconds(problem.Since), "node", node, "id", problem.ID)
		kind = ""
	}
	return b.String()
}

var labelText = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// metrics serves the metrics of a guard, on the loopback or over TLS, and writes them to a file.
type metrics struct {
	mu   sync.Mutex
	text string
	say  func(line string)
	host host.Host
	stop func()
}

// publish makes the metrics known; the listener starts with the first.
func (m *metrics) publish(ctx context.Context, plan steps.BootPlan, s steps.GuardState, paused bool) {
	text := Metrics(plan.Node, s, paused)
	m.mu.Lock()
	m.text = text
	m.mu.Unlock()
	g := plan.Guard
	if g.Textfile != "" {
		err := m.safe(ctx, g.Textfile)
		if err == nil {
			err = m.host.WriteFile(ctx, g.Textfile, strings.NewReader(text), host.WriteOptions{})
		}
		if err != nil {
			m.say("the metrics are not written: " + err.Error())
		}
	}
	if g.Listen != "" && m.stop == nil {
		if err := m.listen(ctx, *g); err != nil {
			m.say("the metrics are not served: " + err.Error())
		}
	}
}

// safe refuses a file in a folder that others own or can change, or that lies in one: they could have what is written
// with all rights lead elsewhere.
func (m *metrics) safe(ctx context.Context, path string) error {
	f, err := m.host.Facts(ctx)
	if err != nil {
		return err
	}
	for dir := path; dir != host.Dir(f.OS, dir); {
		dir = host.Dir(f.OS, dir)
		fi, err := m.host.Stat(ctx, dir)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it is made, and those above count
		case err != nil:
			return err
		case fi.Open:
			return &host.Error{Op: "write into", Subject: dir, Err: host.ErrForeign}
		}
	}
	return nil
}

// listen serves until close.
func (m *metrics) listen(ctx context.Context, g steps.Guard) error {
	if g.Certificate != "" {
		if _, err := m.certificate(ctx, g); err != nil {
			return err
		}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", g.Listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: log.New(io.Discard, "", 0)} // others could fill the log with bad handshakes
	if g.Certificate != "" {
		l = tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return m.certificate(ctx, g) }})
		server.SetKeepAlivesEnabled(false) // anyone in the network can connect
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l) // ends with the listener
	}()
	m.stop = func() {
		_ = server.Close()
		<-ended
	}
	return nil
}

// certificate reads the certificate of the metrics, which an apply may have renewed.
func (m *metrics) certificate(ctx context.Context, g steps.Guard) (*tls.Certificate, error) {
	var pem [2][]byte
	for i, path := range []string{g.Certificate, g.Key} {
		text, err := host.ReadFile(ctx, m.host, path, host.MaxText)
		if err != nil {
			return nil, err
		}
		if text == nil {
			return nil, &host.Error{Op: "read", Subject: path, Err: fs.ErrNotExist}
		}
		pem[i] = text.Content
	}
	c, err := tls.X509KeyPair(pem[0], pem[1])
	return &c, err
}

// ServeHTTP answers /metrics.
func (m *metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metrics" {
		http.NotFound(w, r)
		return
	}
	m.mu.Lock()
	text := m.text
	m.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(text))
}

// close ends the listener, if there is one.
func (m *metrics) close() {
	if m.stop != nil {
		m.stop()
	}
}
