package verify

import (
	"fmt"
	"net"
	"net/url"
)

// webPort is the port of the sample web server.
const webPort = 80

// webServer is the sample of the Kubernetes guide to Windows containers: a web server
// of a few lines that every Windows server image can run.
const webServer = `$listener = New-Object System.Net.HttpListener; ` +
	`$listener.Prefixes.Add('http://*:80/'); $listener.Start(); ` +
	`while ($listener.IsListening) { ` +
	`$context = $listener.GetContext(); $response = $context.Response; ` +
	`$buffer = [System.Text.Encoding]::UTF8.GetBytes(` +
	`'<html><body><H1>Windows Container Web Server</H1></body></html>'); ` +
	`$response.ContentLength64 = $buffer.Length; ` +
	`$response.OutputStream.Write($buffer, 0, $buffer.Length); $response.Close() }`

// serve is how the web server is run in its image: the sample on Windows, agnhost
// (kubernetes test/images/agnhost) on Linux.
func serve(os string) (command, args []string) {
	if os == "windows" {
		return []string{"powershell.exe"}, []string{"-NoProfile", "-NonInteractive", "-Command", webServer}
	}
	return nil, []string{"netexec", fmt.Sprintf("--http-port=%d", webPort)}
}

// question is what a container of the asking pod asks.
type question struct{ flow, host, url string }

// asks is the command in the same image that asks a question and exits with 0 if it is answered. For a
// question with a URL any answer counts.
func asks(os string, q question) (command, args []string) {
	if os == "windows" {
		args = []string{"--silent", "--show-error", "--output", "NUL", "--connect-timeout", "5", "--max-time", "10"}
		if q.url != "" {
			return []string{"curl.exe"}, append(args, "--insecure", q.url)
		}
		return []string{"curl.exe"}, append(args, "--fail", "http://"+q.at()+"/")
	}
	return nil, []string{"connect", "--timeout=5s", "--protocol=tcp", q.at()}
}

// at is the address that is asked: HOST:PORT.
func (q question) at() string {
	if q.url == "" {
		return net.JoinHostPort(q.host, fmt.Sprint(webPort))
	}
	u, err := url.Parse(q.url)
	if err != nil {
		return q.url
	}
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	return u.Host
}

// curlCodes are what curl's exit codes say (curl.se, "man page", EXIT CODES).
var curlCodes = map[int32]string{6: "the name is not found", 7: "no connection", 22: "it answers with an error",
	28: "no answer in time", 35: "no TLS", 52: "an empty answer", 56: "the connection broke"}

// exitCode is an exit code for people.
func exitCode(os string, code int32) string {
	if text := curlCodes[code]; os == "windows" && text != "" {
		return fmt.Sprintf("%s (exit code %d)", text, code)
	}
	return fmt.Sprintf("exit code %d", code)
}
