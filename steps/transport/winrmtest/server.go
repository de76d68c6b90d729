// Package winrmtest is a WinRM server for tests: HTTPS with NTLM (MS-NLMP) and the shells of MS-WSMV. It refuses what
// WinRM refuses: requests of a connection that has not logged in, messages over 500 KiB, and shells and commands that
// are not there.
package winrmtest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nodejoin/steps/transport/sealed"
)

// Run runs a command line of cmd.exe until it ends or ctx does, and returns its exit code.
type Run func(ctx context.Context, line string, in io.Reader, out, err io.Writer) int

// Server is a WinRM server on loopback.
type Server struct {
	Addr           string // host and port
	User, Password string
	SHA256         string // of its certificate, hex
	CA             []byte // its certificate, PEM

	// Keytab is the file with the keys of a server that takes Kerberos, too; "" = it does not.
	Keytab string

	// Strict refuses logins without the channel bindings of the server's certificate, and those by NTLM without a MIC,
	// as WinRM does with Auth\CbtHardeningLevel Strict. Wrong bindings are always refused.
	Strict bool

	// MaxShells is how many shells may be open; 0 = any number.
	MaxShells int

	plain  bool   // HTTP: messages must be sealed
	bound  []byte // channel bindings of its certificate
	run    Run
	silent atomic.Bool
	http   *httptest.Server
	mu     sync.Mutex
	shells map[string]*shell
}

// New starts a Server that ends with the test. Its certificate is for names, too.
func New(t testing.TB, user, password string, run Run, names ...string) *Server {
	s, err := Start(user, password, run, names...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// NewHTTP starts a Server without TLS that ends with the test. As WinRM does by default, it takes sealed messages
// only.
func NewHTTP(t testing.TB, user, password string, run Run) *Server {
	s := &Server{User: user, Password: password, run: run, shells: map[string]*shell{}, plain: true}
	s.prepare()
	s.http.Start()
	s.Addr = s.http.Listener.Addr().String()
	t.Cleanup(s.Close)
	return s
}

// Start starts a Server, as New does.
func Start(user, password string, run Run, names ...string) (*Server, error) {
	s := &Server{User: user, Password: password, run: run, shells: map[string]*shell{}}
	cert, err := s.certificate(append([]string{"winrm.test"}, names...))
	if err != nil {
		return nil, err
	}
	s.prepare()
	s.http.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}
	s.http.StartTLS()
	s.Addr = s.http.Listener.Addr().String()
	return s, nil
}

func (s *Server) prepare() {
	s.http = httptest.NewUnstartedServer(s)
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.http.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		n := ntlm{user: s.User, password: s.Password, bindings: s.bound, strict: s.Strict}
		return context.WithValue(ctx, loginKey{}, &login{ntlm: n})
	}
}

// Close ends its shells and connections.
func (s *Server) Close() {
	s.mu.Lock()
	for _, sh := range s.shells {
		sh.end()
	}
	s.mu.Unlock()
	s.http.CloseClientConnections()
	s.http.Close()
}

// Freeze makes it stop answering requests.
func (s *Server) Freeze() { s.silent.Store(true) }

// Shells is how many shells are open.
func (s *Server) Shells() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.shells)
}

func (s *Server) certificate(names []string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "winrm.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	sum := sha256.Sum256(der)
	s.SHA256, s.bound = hex.EncodeToString(sum[:]), bindings(der)
	s.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// login is that of one connection.
type login struct {
	ntlm   ntlm
	done   bool
	sealed *sealed.Session // nil = messages are not sealed
}

type loginKey struct{}

// maxEnvelope is WinRM's MaxEnvelopeSizekb, in bytes.
const maxEnvelope = 500 << 10

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/wsman" {
		http.NotFound(w, r)
		return
	}
	l := r.Context().Value(loginKey{}).(*login)
	room := rooms.Get().(*room)
	defer rooms.Put(room)
	n, err := io.ReadFull(r.Body, room.body[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body := room.body[:n]
	if s.silent.Load() {
		<-r.Context().Done()
		return
	}
	if !s.admit(w, r, l) {
		return
	}
	contentType := r.Header.Get("Content-Type")
	if s.plain {
		if len(body) == 0 { // the one that logs in
			return
		}
		opened, err := l.open(contentType, body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		answer, out := httptest.NewRecorder(), w
		defer func() {
			out.Header().Set("Content-Type", sealed.ContentType)
			out.WriteHeader(answer.Code)
			_, _ = out.Write(l.sealed.Pack(answer.Body.Bytes())) //nolint:gosec // no page: sealed bytes
		}()
		w, body, contentType = answer, opened, "application/soap+xml"
	}
	switch {
	case len(body) > maxEnvelope:
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	case !strings.HasPrefix(contentType, "application/soap+xml"):
		w.WriteHeader(http.StatusUnsupportedMediaType)
	default:
		s.soap(w, r, body, room.input[:]) //nolint:contextcheck // programs outlive the request that starts them
	}
}

// room has place for one message, and for the input in it. The server takes many large ones, and is to cost the tests
// that measure little.
type room struct {
	body  [maxEnvelope + 1024]byte
	input [maxEnvelope]byte
}

var rooms = sync.Pool{New: func() any { return new(room) }}

// open opens a message that must be sealed.
func (l *login) open(contentType string, body []byte) ([]byte, error) {
	if l.sealed == nil || !sealed.Is(contentType) {
		return nil, errors.New("messages must be encrypted")
	}
	return l.sealed.Unpack(body)
}

// admit logs the connection in; false where it has answered the request.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, l *login) bool {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token, err := base64.StdEncoding.DecodeString(text)
	refuse := func(challenge string) bool {
		for _, s := range []string{"Negotiate", "NTLM"} {
			if challenge == "" {
				w.Header().Add("WWW-Authenticate", s)
			}
		}
		if challenge != "" {
			w.Header().Set("WWW-Authenticate", scheme+" "+challenge)
		}
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	switch {
	case text == "":
		return l.done || refuse("")
	case err != nil || scheme != "Negotiate" && scheme != "NTLM":
		return refuse("")
	case scheme == "Negotiate" && s.Keytab != "" && !bytes.HasPrefix(token, []byte("NTLMSSP\x00")):
		answer, session, err := kerberos{s.User, s.Keytab, s.bound, s.Strict}.verify(token)
		if l.done = err == nil; !l.done {
			return refuse("")
		}
		if l.sealed = session; answer != nil {
			w.Header().Set("WWW-Authenticate", scheme+" "+base64.StdEncoding.EncodeToString(answer))
		}
		return true
	case l.ntlm.challenge == nil:
		challenge, err := l.ntlm.answer(token)
		if err != nil {
			return refuse("")
		}
		return refuse(base64.StdEncoding.EncodeToString(challenge))
	}
	err = l.ntlm.verify(token)
	l.ntlm.challenge = nil
	if l.done = err == nil; !l.done {
		return refuse("")
	}
	l.sealed, _ = sealed.NTLM(token, s.Password, sealed.Server) // an error: not asked for
	return true
}

// soap answers a message; input has room for what is in it.
func (s *Server) soap(w http.ResponseWriter, r *http.Request, body, input []byte) {
	e, err := read(body)
	switch {
	case err != nil || e.Message == "" || e.To == "" || e.Action == "":
		fault(w, "wsa:MessageInformationHeaderRequired", "2150858831", "the message cannot be read")
		return
	case e.Resource != nsShell+"/cmd":
		fault(w, "a:DestinationUnreachable", "2150858811", "unknown resource")
		return
	case e.Action == transfer+"Create":
		s.create(w, e)
		return
	}
	id := ""
	for _, sel := range e.Selectors {
		if sel.Name == "ShellId" {
			id = sel.Text
		}
	}
	s.mu.Lock()
	sh := s.shells[id]
	s.mu.Unlock()
	if sh == nil {
		fault(w, "w:InvalidSelectors", "2150858843", "there is no such shell")
		return
	}
	sh.idle.Stop()
	defer sh.idle.Reset(sh.idleFor)
	switch {
	case e.Action == transfer+"Delete":
		s.drop(sh)
		reply(w, e, "")
	case e.Action == nsShell+"/Command" && e.Line != nil && e.Line.Command != "":
		s.command(w, e, sh)
	case e.Action == nsShell+"/Send" && len(e.Send) > 0:
		sh.send(w, e, input)
	case e.Action == nsShell+"/Receive" && e.Receive != nil:
		sh.receive(w, r, e)
	case e.Action == nsShell+"/Signal" && e.Signal != nil:
		sh.signal(w, e)
	default:
		fault(w, "a:ActionNotSupported", "2150858817", "unknown action")
	}
}

// read parses a message. It parses much input by itself: package xml takes longer for it than all of the rest does.
func read(body []byte) (e envelope, err error) {
	const begin, end = "<rsp:Stream ", "</rsp:Stream>"
	from, to := -1, bytes.Index(body, []byte(end))
	if len(body) > 64<<10 && to > 0 {
		from = bytes.Index(body[:to], []byte(begin))
	}
	if from < 0 || bytes.Contains(body[to+len(end):], []byte(end)) {
		return e, xml.Unmarshal(body, &e) //nolint:gosec // into strings only
	}
	from += bytes.IndexByte(body[from:], '>') + 1
	err = xml.Unmarshal(append(body[:from:from], body[to:]...), &e) //nolint:gosec // into strings only
	if err == nil && len(e.Send) == 1 {
		e.Send[0].much = body[from:to]
	}
	return e, err
}

func (s *Server) create(w http.ResponseWriter, e envelope) {
	if e.Shell == nil || e.Shell.In != "stdin" || e.Shell.Out != "stdout stderr" {
		fault(w, "w:SchemaValidationError", "2150858817", "the streams are not those of a shell")
		return
	}
	sh := &shell{id: newID(), commands: map[string]*command{}, idleFor: 2 * time.Hour}
	if d, err := time.ParseDuration(strings.ToLower(strings.TrimPrefix(e.Shell.Idle, "PT"))); err == nil {
		sh.idleFor = d
	}
	sh.ctx, sh.end = context.WithCancel(context.Background())
	sh.idle = time.AfterFunc(sh.idleFor, func() { s.drop(sh) })
	s.mu.Lock()
	full := s.MaxShells > 0 && len(s.shells) >= s.MaxShells
	if !full {
		s.shells[sh.id] = sh
	}
	s.mu.Unlock()
	if full { // ERROR_WSMAN_QUOTA_MAX_SHELLS_PPQ
		s.drop(sh)
		fault(w, "w:QuotaLimit", "2150859173", "The maximum number of concurrent shells for this user has been exceeded.")
		return
	}
	reply(w, e, fmt.Sprintf(`<x:ResourceCreated><a:Address>https://winrm.test/wsman</a:Address><a:ReferenceParameters>`+
		`<w:ResourceURI>%s/cmd</w:ResourceURI><w:SelectorSet><w:Selector Name="ShellId">%s</w:Selector></w:SelectorSet>`+
		`</a:ReferenceParameters></x:ResourceCreated><rsp:Shell><rsp:ShellId>%s</rsp:ShellId></rsp:Shell>`,
		nsShell, sh.id, sh.id))
}

func (s *Server) drop(sh *shell) {
	sh.idle.Stop()
	sh.end()
	s.mu.Lock()
	delete(s.shells, sh.id)
	s.mu.Unlock()
}

func (s *Server) command(w http.ResponseWriter, e envelope, sh *shell) {
	in, feed := io.Pipe()
	c := &command{id: newID(), in: feed, cond: make(chan struct{}),
		out: map[string]*bytes.Buffer{"stdout": {}, "stderr": {}}}
	ctx, end := context.WithCancel(sh.ctx)
	c.end = end
	sh.mu.Lock()
	sh.commands[c.id] = c
	sh.mu.Unlock()
	line := strings.Join(append([]string{e.Line.Command}, e.Line.Arguments...), " ")
	go func() {
		defer end()
		code := s.run(ctx, line, in, stream{c, "stdout"}, stream{c, "stderr"})
		_ = in.Close()
		c.change(func() { c.done, c.code = true, code })
	}()
	reply(w, e, "<rsp:CommandResponse><rsp:CommandId>"+c.id+"</rsp:CommandId></rsp:CommandResponse>")
}
