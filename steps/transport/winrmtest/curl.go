package winrmtest

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"time"
)

// curl is a command line of curl.exe as nodejoin writes it.
var curl = regexp.MustCompile(`^curl\.exe -sSfk --http1\.1 --connect-timeout (\d+) --max-time (\d+) ` +
	`--pinnedpubkey sha256//([0-9A-Za-z+/]{43}=) -o (\S+) (https://\S+)$`)

// Exit codes of curl (its manual, EXIT CODES).
const (
	curlFailed       = 2
	curlNoConnection = 7
	curlRefused      = 22
	curlWrite        = 23
	curlTimeout      = 28
	curlReceive      = 56
	curlPin          = 90
)

var errPin = errors.New("public key does not match pinned public key")

// fetch stands in for curl.exe of Windows Server 2022: with Schannel, thus without TLS 1.3. It returns curl's exit
// code.
func fetch(ctx context.Context, m []string, to string) (int, error) {
	connects, _ := strconv.Atoi(m[1])
	ends, _ := strconv.Atoi(m[2])
	ctx, cancel := context.WithTimeout(ctx, time.Duration(ends)*time.Second)
	defer cancel()
	dialer := &net.Dialer{Timeout: time.Duration(connects) * time.Second}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{MaxVersion: tls.VersionTLS12,
			InsecureSkipVerify: true, //nolint:gosec // the pin is verified
			VerifyConnection: func(s tls.ConnectionState) error {
				sum := sha256.Sum256(s.PeerCertificates[0].RawSubjectPublicKeyInfo)
				if base64.StdEncoding.EncodeToString(sum[:]) != m[3] {
					return errPin
				}
				return nil
			}}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m[5], nil)
	if err != nil {
		return curlFailed, err
	}
	resp, err := client.Do(req)
	var timeout net.Error
	var op *net.OpError
	switch {
	case err == nil:
	case errors.Is(err, errPin):
		return curlPin, err
	case errors.As(err, &timeout) && timeout.Timeout():
		return curlTimeout, err
	case errors.As(err, &op) && op.Op == "dial":
		return curlNoConnection, err
	default:
		return curlReceive, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= http.StatusBadRequest {
		return curlRefused, fmt.Errorf("the requested URL returned error: %d", resp.StatusCode)
	}
	f, err := os.Create(to)
	if err != nil {
		return curlWrite, err
	}
	if _, err := io.Copy(f, resp.Body); err != nil {
		return curlReceive, errors.Join(err, f.Close())
	}
	return 0, f.Close()
}
