package pull

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFollowLogin: the source and the bundle beside it are read with the login of the file, which is in no message.
func TestFollowLogin(t *testing.T) {
	s := newSite(t)
	s.publish(1, "first")
	files := http.FileServer(http.Dir(s.dir))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user+":"+password != "node:s3cret" && r.Header.Get("Authorization") != "Bearer t0ken" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	n := s.node("n")
	n.file.Source = server.URL + "/prod.tar.release"

	file := filepath.Join(t.TempDir(), "login.json")
	for _, c := range []struct {
		name, text string
		mode       os.FileMode
		reason     string
		want       string
	}{
		{"none", "", 0, "NotFetched", "wants a login, which a login block in the follow block of the plan (or"},
		{"gone", "-", 0o600, "Failed", "login.json"},
		{"wrong", `{"username": "node", "password": "gu3ss"}`, 0o600, "NotFetched",
			`refuses the login of "node", which the file ` + file + " gives"},
		{"wrong token", `{"token": "gu3ss"}`, 0o600, "NotFetched",
			"refuses the token, which the file " + file + " gives"},
		{"public", `{"username": "node", "password": "s3cret"}`, 0o644, "Failed", "can be read by others"},
		{"no password", `{"username": "node"}`, 0o600, "Failed", "must be"},
		{"both", `{"username": "node", "password": "s3cret", "token": "t0ken"}`, 0o600, "Failed", "must be"},
		{"half", `{"token": "t0ken`, 0o600, "Failed", "must be"},
		{"user", `{"username": "node", "password": "s3cret"}`, 0o600, "Fetched", ""},
		{"token", `{"token": "t0ken"}`, 0o600, "Fetched", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if n.file.Login = file; c.text == "" {
				n.file.Login = ""
			}
			must(t, os.RemoveAll(file))
			if c.text != "-" && c.text != "" {
				must(t, os.WriteFile(file, []byte(c.text), c.mode))
				if c.mode == 0o600 {
					closeFile(t, file)
				}
			}
			b, err := json.Marshal(n.file)
			must(t, err)
			must(t, os.WriteFile(n.Path, b, 0o600))
			f, err := ReadFile(n.Path)
			must(t, err)
			store := newStore()
			defer store.Close()
			rel, _, err := f.release(t.Context(), store)
			if err == nil {
				_, err = f.fetch(t.Context(), store, rel, t.TempDir())
			}
			if c.reason == "Fetched" {
				must(t, err)
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			r, _ := failed(rel, err)
			if string(r.Reason) != c.reason || !strings.Contains(r.Message, c.want) {
				t.Errorf("%+v, want %s %q", r, c.reason, c.want)
			}
			for _, secret := range []string{"s3cret", "t0ken", "gu3ss"} {
				if strings.Contains(r.Message, secret) {
					t.Errorf("it says the password: %s", r.Message)
				}
			}
		})
	}
	n.file.Login = "login.json"
	b, err := json.Marshal(n.file)
	must(t, err)
	must(t, os.WriteFile(n.Path, b, 0o600))
	if _, err := ReadFile(n.Path); err == nil || !strings.Contains(err.Error(), `login is "login.json"`) {
		t.Errorf("a relative path: %v", err)
	}
}
