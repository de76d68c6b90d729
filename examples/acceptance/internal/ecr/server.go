// Package ecr is a stand-in for the API of Amazon ECR. It knows one call, GetAuthorizationToken, and refuses what AWS
// refuses: a request without a valid Signature Version 4, of another user, for another region or service, or of
// another time.
//
// Sources: "Create a signed AWS API request" in the IAM User Guide; "GetAuthorizationToken" and "Common Errors" in the
// Amazon ECR API Reference; "AWS JSON 1.1 protocol" in the Smithy specification.
package ecr

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"
)

// User is the name with which all tokens log in at a registry.
const User = "AWS"

// Target is the header X-Amz-Target of the one call.
const Target = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"

// Server answers the call. Its fields are not changed while it serves.
type Server struct {
	AccessKey, SecretKey string // of the one user that may call
	Region               string
	Password             string // that the token holds, for User
	Registry             string // the registry's address: "https://..."

	mu      sync.Mutex
	given   int
	refused []string
}

// Given is how many tokens were given out.
func (s *Server) Given() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given
}

// Refused are the errors of the calls that got no token.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.refused...)
}

// maxBody bounds a request's body, in bytes.
const maxBody = 64 << 10

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var bad *Error
	if err != nil {
		bad = &Error{"SerializationException", err.Error()}
	} else {
		bad = s.judge(r, body)
	}
	w.Header().Set("Content-Type", mediaType)
	if bad != nil {
		s.mu.Lock()
		s.refused = append(s.refused, bad.Error())
		s.mu.Unlock()
		w.Header().Set("X-Amzn-Errortype", bad.Type)
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(bad) // the client is gone
		return
	}
	s.mu.Lock()
	s.given++
	s.mu.Unlock()
	type data struct {
		Token    string  `json:"authorizationToken"`
		Expires  float64 `json:"expiresAt"` // seconds since 1970
		Endpoint string  `json:"proxyEndpoint"`
	}
	_ = json.NewEncoder(w).Encode(map[string][]data{"authorizationData": {{ // the client is gone
		Token:    base64.StdEncoding.EncodeToString([]byte(User + ":" + s.Password)),
		Expires:  float64(time.Now().Add(12 * time.Hour).Unix()),
		Endpoint: s.Registry}}})
}

const mediaType = "application/x-amz-json-1.1"

// judge is the error of a request; nil = it gets a token.
func (s *Server) judge(r *http.Request, body []byte) *Error {
	if r.Method != http.MethodPost || r.URL.Path != "/" || r.Header.Get("Content-Type") != mediaType ||
		r.Header.Get("X-Amz-Target") != Target {
		return &Error{"UnknownOperationException", r.Method + " " + r.URL.Path + " " + r.Header.Get("X-Amz-Target")}
	}
	if err := (signer{s.AccessKey, s.SecretKey, s.Region, "ecr"}).verify(r, body, time.Now()); err != nil {
		return err
	}
	var asked struct {
		RegistryIDs []string `json:"registryIds"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return &Error{"SerializationException", err.Error()}
	}
	return nil
}

// Error is what AWS answers.
type Error struct {
	Type    string `json:"__type"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Type + ": " + e.Message }
