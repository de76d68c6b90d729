// Podimage is all that the images of the tests' pods hold: without arguments it waits,
// as the sandbox of a pod does; as "serve" it says on port 8080 where it runs.
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		name, _ := os.Hostname()
		fmt.Println("served by", name)
		server := &http.Server{Addr: ":8080", ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "%s, process %d", name, os.Getpid())
		})}
		go func() {
			fmt.Fprintln(os.Stderr, server.ListenAndServe())
			os.Exit(1)
		}()
	}
	<-told
}
