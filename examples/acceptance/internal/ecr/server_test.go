package ecr

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestDocumented: the signature of AWS's own example is valid, and only at its time (AWS General Reference, "Signature
// Version 4 signing process", the request ListUsers).
func TestDocumented(t *testing.T) {
	s := signer{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1", "iam"}
	r := httptest.NewRequest(http.MethodGet, "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", nil)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	r.Header.Set("X-Amz-Date", "20150830T123600Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, "+
		"SignedHeaders=content-type;host;x-amz-date, "+
		"Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7")
	at := time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
	if err := s.verify(r, nil, at); err != nil {
		t.Error(err)
	}
	if err := s.verify(r, nil, at.Add(6*time.Minute)); err == nil {
		t.Error("it is valid six minutes later")
	}
}

// TestRefuses: each request that AWS would refuse gets no token.
func TestRefuses(t *testing.T) {
	s := &Server{AccessKey: "AKIA", SecretKey: "secret", Region: "eu-west-1", Password: "p"}
	request := func(change func(*http.Request, *signer), body string) int {
		r := httptest.NewRequest(http.MethodPost, "https://ecr.test:8443/", strings.NewReader(body))
		r.Header.Set("Content-Type", mediaType)
		r.Header.Set("X-Amz-Target", Target)
		r.Header.Set("X-Amz-Date", time.Now().UTC().Format(timeForm))
		by := signer{"AKIA", "secret", "eu-west-1", "ecr"}
		signed := []string{"content-type", "host", "x-amz-date", "x-amz-target"}
		if change != nil {
			change(r, &by)
		}
		stamp := r.Header.Get("X-Amz-Date")
		scope := strings.Join([]string{stamp[:8], by.region, by.service, "aws4_request"}, "/")
		sign := func() {
			r.Header.Set("Authorization", fmt.Sprintf("%s Credential=%s/%s, SignedHeaders=%s, Signature=%s", algorithm,
				by.accessKey, scope, strings.Join(signed, ";"), by.signature(stamp, scope, canonical(r, signed, []byte(body)))))
		}
		if sign(); r.Header.Get("After") != "" { // changed once it was signed
			r.Host = "other.test"
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		text, _ := io.ReadAll(w.Result().Body)
		if ok := strings.Contains(string(text), "authorizationToken"); ok != (w.Code == http.StatusOK) {
			t.Errorf("%d: %s", w.Code, text)
		}
		return w.Code
	}
	if code := request(nil, "{}"); code != http.StatusOK || s.Given() != 1 {
		t.Fatalf("a valid request: %d, %v", code, s.Refused())
	}
	for name, change := range map[string]func(*http.Request, *signer){
		"secret":  func(_ *http.Request, s *signer) { s.secretKey = "other" },
		"user":    func(_ *http.Request, s *signer) { s.accessKey = "AKIB" },
		"region":  func(_ *http.Request, s *signer) { s.region = "eu-west-2" },
		"service": func(_ *http.Request, s *signer) { s.service = "s3" },
		"time": func(r *http.Request, _ *signer) {
			r.Header.Set("X-Amz-Date", time.Now().Add(-6*time.Minute).UTC().Format(timeForm))
		},
		"unsigned header": func(r *http.Request, _ *signer) { r.Header.Set("X-Amz-Security-Token", "x") },
		"other call":      func(r *http.Request, _ *signer) { r.Header.Set("X-Amz-Target", "Other.Call") },
		"method":          func(r *http.Request, _ *signer) { r.Method = http.MethodPut },
		"changed":         func(r *http.Request, _ *signer) { r.Header.Set("After", "yes") },
	} {
		if code := request(change, "{}"); code != http.StatusBadRequest {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code := request(nil, "not JSON"); code != http.StatusBadRequest || s.Given() != 1 || len(s.Refused()) != 10 {
		t.Errorf("%d, %d given, refused %q", code, s.Given(), s.Refused())
	}
}
