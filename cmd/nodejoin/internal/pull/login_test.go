package pull

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"nodejoin/cmd/nodejoin/internal/firstboot"
	"nodejoin/steps"
	"nodejoin/steps/kinds"
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
	host := strings.TrimPrefix(server.URL, "http://")

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
		{"another server", `{"host": "files.example", "token": "t0ken"}`, 0o600, "Failed",
			"the login " + file + " is for the server files.example, and source is at 127.0.0.1:"},
		{"its server", `{"host": "` + host + `", "token": "t0ken"}`, 0o600, "Fetched", ""},
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

// TestFollowKeepsLogin: a release may leave the login of a machine as it is. One that gives it to another server,
// takes it away, or wants one that is not there is refused, and changes nothing.
func TestFollowKeepsLogin(t *testing.T) {
	s := newSite(t)
	server := httptest.NewServer(http.FileServer(http.Dir(s.dir)))
	defer server.Close()
	here := strings.TrimPrefix(server.URL, "http://")
	for name, c := range map[string]struct {
		own    string // the login of the machine; "" = none
		hand   bool   // the file of the machine is made by hand
		gives  string // what the release has; "" = none
		reason string
		want   string
	}{
		"same":               {own: `"host": "HERE", `, gives: "HERE", reason: "Applied"},
		"same, by hand":      {own: " ", hand: true, gives: "HERE", reason: "Applied"},
		"dropped, by hand":   {own: " ", hand: true, reason: "Applied"},
		"neither":            {reason: "Applied"},
		"moved":              {own: `"host": "HERE", `, gives: "else.example", reason: "Refused", want: "to else."},
		"moved, no host":     {own: " ", gives: "else.example", reason: "Refused", want: "it is for HERE; apply"},
		"moved, by hand":     {own: " ", hand: true, gives: "else.example", reason: "Refused", want: "is for HERE"},
		"another port":       {own: " ", gives: "127.0.0.1", reason: "Refused", want: "to 127.0.0.1, and it is for"},
		"dropped":            {own: " ", reason: "Refused", want: "has no login in the follow block of node"},
		"none here":          {gives: "HERE", reason: "Refused", want: "a login that this machine does not have"},
		"none here, by hand": {hand: true, gives: "HERE", reason: "Refused", want: "a release has no passwords"},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			s.publish(1, "first")
			n := s.node("n-" + strings.NewReplacer(" ", "-", ",", "").Replace(name))
			n.file.Source, n.file.Managed = server.URL+"/prod.tar.release", !c.hand
			at := strings.NewReplacer("HERE", here)
			if c.own != "" {
				n.file.Login = filepath.Join(t.TempDir(), "login.json")
				must(t, os.WriteFile(n.file.Login, []byte("{"+at.Replace(c.own)+`"token": "t0ken"}`), 0o600))
				closeFile(t, n.file.Login)
			}
			p := n.plan()
			file := func(id, path, content string) {
				p.Nodes[0].Steps = append(p.Nodes[0].Steps, steps.Spec{ID: id, Kind: "file",
					Args: steps.MustArgs(&kinds.File{Path: path, Content: content})})
			}
			p.Nodes[0].OS = runtime.GOOS
			file("follow_file", n.Path, "x")
			if c.gives != "" {
				file("follow_login", n.Path+".login", `{"host": "`+at.Replace(c.gives)+`", "token": "t0ken"}`)
			}
			n.applies = func(ctx context.Context, _ []string) (int, firstboot.Outcome) {
				n.Login()
				if err := n.Prepare(ctx, p); errors.Is(err, firstboot.ErrNotNow) {
					return exitLocked, firstboot.Waiting
				} else if err != nil {
					t.Error(err)
				}
				return exitOK, firstboot.Finished
			}
			if code := n.round(t.Context()); (code == exitOK) != (c.reason == "Applied") {
				t.Errorf("code %d: %q", code, n.said)
			}
			if c.reason == "Applied" {
				n.want("True", c.reason, "", 1)
			} else {
				n.want("False", c.reason, at.Replace(c.want), 0)
			}
		})
	}
}
