package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdUpstream starts an artifact server on loopback and sets UPSTREAM to its address: upstream FOLDER. It serves the
// folder's files unchanged at /NAME. At /cut/NAME each answer ends in the middle. At /more/NAME it promises more bytes
// than it sends, at /less/NAME fewer. At /long/NAME it repeats the file for more than 1 MiB. It answers 404 for
// /absent/NAME and for files that do not exist, and 403 for /signed/NAME without ?X-Amz-Signature=valid. At /hang/NAME
// it never answers, and writes a file named asked into the folder.
func cmdUpstream(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: upstream FOLDER")
	}
	folder := ts.MkAbs(args[0])
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		how, name, split := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if !split {
			how, name = "", how
		}
		b, err := os.ReadFile(filepath.Join(folder, filepath.Base(name)))
		if err != nil || how == "absent" {
			http.NotFound(w, r)
			return
		}
		if how == "signed" {
			if r.URL.Query().Get("X-Amz-Signature") != "valid" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			how = ""
		}
		if how == "hang" {
			_ = os.WriteFile(filepath.Join(folder, "asked"), nil, 0o600)
			<-r.Context().Done()
			return
		}
		if how == "long" {
			how, b = "", bytes.Repeat(b, 1<<20/len(b)+1)
		}
		promised := map[string]int{"": len(b), "cut": len(b), "more": len(b) + 10, "less": len(b) - 10}[how]
		if how == "cut" {
			b = b[:len(b)/2]
		}
		w.Header().Set("Content-Length", strconv.Itoa(promised))
		_, _ = w.Write(b[:min(len(b), promised)])
		w.(http.Flusher).Flush()
		if len(b) != promised {
			panic(http.ErrAbortHandler)
		}
	}))
	ts.Defer(srv.Close)
	ts.Setenv("UPSTREAM", srv.URL)
}
