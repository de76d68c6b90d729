package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"nodejoin/steps"
	"nodejoin/steps/wait"
)

// pace bounds the waits of a download.
type pace struct {
	tries int           // tries in a row that brought fewer than least bytes
	first time.Duration // pause before the second try; doubles
	idle  time.Duration // a connection that brings fewer than least bytes in this time counts as broken
	least int           // bytes
}

var defaultPace = pace{tries: 5, first: 250 * time.Millisecond, idle: 60 * time.Second, least: 16 << 10}

// redirect follows what a server redirects to, but not from https to http: whoever is on the way there could answer
// in its place. It does not pass on the address that it came from, which may have a secret.
func redirect(req *http.Request, via []*http.Request) error {
	switch last := via[len(via)-1]; {
	case len(via) >= 10:
		return errors.New("the server redirects again and again")
	case last.URL.Scheme == "https" && req.URL.Scheme != "https":
		return fmt.Errorf("the server redirects from https to %s, where anybody on the way could answer; give the "+
			"address that it should come from", req.URL.Scheme)
	}
	req.Header.Del("Referer")
	return nil
}

// newClient bounds every wait except for the body, which download bounds itself.
func newClient(machineEnv func(context.Context, string) (string, error)) *http.Client {
	return &http.Client{CheckRedirect: redirect, Transport: &http.Transport{
		Proxy:                 proxyOf(machineEnv),
		DialContext:           (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   15 * time.Second,
		ResponseHeaderTimeout: 60 * time.Second,
		IdleConnTimeout:       30 * time.Second,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true, // the digest is over the bytes as published
		WriteBufferSize:       4 << 10,
		ReadBufferSize:        64 << 10,
	}}
}

// maxDownload bounds a download in bytes, whatever its server says. No artifact of a node comes near it.
const maxDownload = 16 << 30

type fetcher struct {
	client *http.Client
	pace   pace
	limit  int64 // bytes of one download
}

// open starts a download. A broken connection is resumed where it ended, by a range request; the caller's
// digest covers the whole.
func (f fetcher) open(ctx context.Context, src steps.Source) (io.ReadCloser, int64, error) {
	d, err := f.download(ctx, src)
	if err != nil {
		return nil, 0, err
	}
	if err := d.connect(ctx); err != nil {
		return nil, 0, err
	}
	if d.size > d.limit {
		_ = d.Close()
		return nil, 0, d.tooLong()
	}
	return d, d.size, nil
}

// openAt continues a download that was cut, of a size that is known.
func (f fetcher) openAt(ctx context.Context, src steps.Source, off, size int64) (io.ReadCloser, error) {
	d, err := f.download(ctx, src)
	if err != nil {
		return nil, err
	}
	if d.off = off; off > 0 {
		d.size = size
	}
	if err := d.connect(ctx); err != nil {
		return nil, err
	}
	if d.size >= 0 && d.size != size {
		_ = d.Close()
		return nil, fmt.Errorf("%s: it has %d bytes, and %d are locked", steps.ShowURL(d.url), d.size, size)
	}
	return d, nil
}

// download is that of an artifact from its first byte, not yet connected.
func (f fetcher) download(ctx context.Context, src steps.Source) (*download, error) {
	d := &download{fetcher: f, ctx: ctx, url: src.URL, size: -1}
	if !strings.HasPrefix(src.URL, OCIScheme) {
		d.login = own
		return d, webAddress(src.URL)
	}
	s, err := newStored(f.client, src.URL)
	if err != nil {
		return nil, err
	}
	d.login = s.login
	if d.url, err = s.locate(ctx, src.SHA256); err != nil {
		return nil, &steps.FetchError{Err: err}
	}
	return d, nil
}

func webAddress(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return &steps.Error{Code: steps.CodeInvalid, Summary: "wrong artifact address",
			Detail: fmt.Sprintf("%q is not an http or https URL", steps.ShowURL(raw))}
	}
	return nil
}

// download is the body of one URL over as many connections as it takes.
type download struct {
	fetcher
	ctx       context.Context
	url       string
	size      int64  // -1 = unknown
	validator string // strong ETag or Last-Modified of the first response
	off       int64  // bytes returned
	// login returns what the header Authorization has in a request to an address; nil = there is none.
	login func(context.Context, string) ([]string, error)

	body   *steady
	failed int // tries in a row that brought little
	fresh  int // bytes since failed was 0
}

// Read returns bytes in order; an error is permanent.
func (d *download) Read(p []byte) (int, error) {
	for {
		if d.body == nil {
			if err := d.connect(d.ctx); err != nil {
				return 0, err
			}
		}
		n, err := d.body.Read(p)
		if d.size >= 0 && d.off+int64(n) > d.size {
			_ = d.Close()
			return 0, &steps.FetchError{Err: fmt.Errorf("%s: more bytes than the %d promised", steps.ShowURL(d.url), d.size)}
		}
		d.off += int64(n)
		if d.off > d.limit {
			_ = d.Close()
			return 0, d.tooLong()
		}
		if d.fresh += n; d.fresh >= d.pace.least {
			d.failed, d.fresh = 0, 0
		}
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, io.EOF) && (d.size < 0 || d.off == d.size):
			_ = d.Close()
			return n, io.EOF
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		}
		_ = d.Close()
		if d.ctx.Err() != nil {
			return n, context.Cause(d.ctx)
		}
		if d.size < 0 {
			// Without a length the end cannot be told from a cut when resuming.
			return n, d.wrap(err)
		}
		if err := d.pause(err); err != nil {
			return n, err
		}
		if n > 0 {
			return n, nil
		}
	}
}

// Close ends the download; it may be called again.
func (d *download) Close() error {
	if d.body == nil {
		return nil
	}
	d.body.cancel()
	err := d.body.Close()
	d.body = nil
	return err
}

// connect opens a connection at d.off and retries if that may help.
func (d *download) connect(ctx context.Context) error {
	for {
		again, err := d.request(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !again {
			return d.wrap(err)
		}
		if err := d.pause(err); err != nil {
			return err
		}
	}
}

// pause counts a failure and waits before the next try, or gives up with err.
func (d *download) pause(err error) error {
	d.failed++
	if d.failed >= d.pace.tries {
		return d.wrap(fmt.Errorf("given up after %d tries: %w", d.failed, err))
	}
	return wait.Pause(d.ctx, d.pace.first<<(d.failed-1))
}

func (d *download) tooLong() error {
	return &steps.FetchError{Err: fmt.Errorf("%s: more than %d bytes, which no artifact has", steps.ShowURL(d.url),
		d.limit)}
}

func (d *download) wrap(err error) error {
	if d.off > 0 {
		return &steps.FetchError{Err: fmt.Errorf("fetching %s broke off after %d bytes: %w", steps.ShowURL(d.url), d.off,
			err)}
	}
	return &steps.FetchError{Err: fmt.Errorf("fetching %s: %w", steps.ShowURL(d.url), err)}
}

// request makes one request; again reports whether a retry may help.
func (d *download) request(ctx context.Context) (again bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url, nil)
	if err != nil {
		cancel()
		return false, plain(err)
	}
	if d.login != nil {
		authorization, err := d.login(ctx, d.url)
		if err != nil {
			cancel()
			return true, err
		}
		if len(authorization) > 0 {
			req.Header["Authorization"] = authorization
		}
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "nodejoin")
	if d.off > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.off))
		if d.validator != "" {
			req.Header.Set("If-Range", d.validator)
		}
	}
	resp, err := d.client.Do(req)
	if err != nil {
		cancel()
		return true, plain(err)
	}
	body := &steady{ReadCloser: resp.Body, pace: d.pace, cancel: cancel}
	fail := func(again bool, format string, a ...any) (bool, error) {
		resp.Body.Close()
		cancel()
		return again, fmt.Errorf(format, a...)
	}
	switch {
	case resp.StatusCode == http.StatusOK && d.off == 0:
		d.size, d.validator = resp.ContentLength, validator(resp.Header)
	case resp.StatusCode == http.StatusOK:
		// The server sends the whole again: skip what is there already.
		if resp.ContentLength != d.size {
			return fail(false, "it changed on the server while it was fetched (%d bytes, before %d)",
				resp.ContentLength, d.size)
		}
		if _, err := io.CopyN(io.Discard, body, d.off); err != nil {
			return fail(true, "%w", err)
		}
	case resp.StatusCode == http.StatusPartialContent && d.off > 0:
		start, total, ok := contentRange(resp.Header.Get("Content-Range"))
		if !ok || start != d.off || total >= 0 && total != d.size {
			return fail(false, "the server answered a request from byte %d with the range %q of %d bytes", d.off,
				resp.Header.Get("Content-Range"), d.size)
		}
	case resp.StatusCode == http.StatusUnauthorized:
		return fail(false, "the server answered %s%s", resp.Status, toLogIn(ctx, req.URL.Host))
	default:
		transient := resp.StatusCode >= 500 && resp.StatusCode != http.StatusNotImplemented ||
			resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout
		return fail(transient, "the server answered %s", resp.Status)
	}
	d.body = body
	return false, nil
}

// steady is a body that ends with an error where it brings too little. Only the waits of reads count: whoever takes
// the bytes may be slow.
type steady struct {
	io.ReadCloser
	pace
	cancel context.CancelFunc
	waited time.Duration // for the last got bytes, fewer than least
	got    int
	late   bool
}

func (s *steady) Read(p []byte) (int, error) {
	began := time.Now()
	watch := time.AfterFunc(s.idle-s.waited, s.cancel)
	n, err := s.ReadCloser.Read(p)
	s.late = !watch.Stop() || s.late
	s.waited += time.Since(began)
	s.got += n
	switch {
	case s.late && err != nil && s.got == 0:
		err = fmt.Errorf("no byte for %s", s.idle)
	case s.late && err != nil:
		err = fmt.Errorf("fewer than %d bytes in %s", s.least, s.idle)
	case s.got >= s.least:
		s.waited, s.got = 0, 0
	}
	return n, err
}

// validator is what If-Range may carry: weak ETags must not (RFC 9110, 13.1.5).
func validator(h http.Header) string {
	if e := h.Get("ETag"); e != "" && !strings.HasPrefix(e, "W/") {
		return e
	}
	return h.Get("Last-Modified")
}

// contentRange parses "bytes 100-199/200"; total is -1 for "*".
func contentRange(s string) (start, total int64, ok bool) {
	rest, ok := strings.CutPrefix(s, "bytes ")
	if !ok {
		return 0, 0, false
	}
	span, size, ok := strings.Cut(rest, "/")
	if !ok {
		return 0, 0, false
	}
	from, _, ok := strings.Cut(span, "-")
	if !ok {
		return 0, 0, false
	}
	start, err := strconv.ParseInt(from, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	if size == "*" {
		return start, -1, true
	}
	total, err = strconv.ParseInt(size, 10, 64)
	return start, total, err == nil
}
