// Podimage is the only program in the images of the tests' pods. Without arguments it waits, like a pause
// container; "serve" reports on port 8080 where it runs; "netexec" and "connect" are the agnhost commands that
// `nodejoin verify` uses.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	if filepath.Base(os.Args[0]) == "echo" {
		fmt.Println(strings.Join(os.Args[1:], " "))
		return
	}
	if len(os.Args) > 1 {
		switch flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError); os.Args[1] {
		case "serve":
			serve(8080)
		case "netexec":
			port := flags.Int("http-port", 8080, "port to listen on")
			_ = flags.Parse(os.Args[2:]) // it exits
			serve(*port)
		case "connect":
			timeout, protocol := flags.Duration("timeout", time.Second, "bound"), flags.String("protocol", "tcp", "tcp")
			_ = flags.Parse(os.Args[2:]) // it exits
			connect(*protocol, flags.Arg(0), *timeout)
			return
		}
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	<-told
}

// serve reports on every page where it runs.
func serve(port int) {
	name, _ := os.Hostname()
	fmt.Println("served by", name)
	server := &http.Server{Addr: fmt.Sprintf(":%d", port), ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "%s, process %d", name, os.Getpid())
		})}
	go func() {
		fmt.Fprintln(os.Stderr, server.ListenAndServe())
		os.Exit(1)
	}()
}

// connect exits with 0 if something listens at address.
func connect(protocol, address string, timeout time.Duration) {
	c, err := net.DialTimeout(protocol, address, timeout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = c.Close()
}
