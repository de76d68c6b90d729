package winrmtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	nsShell  = "http://schemas.microsoft.com/wbem/wsman/1/windows/shell"
	transfer = "http://schemas.xmlsoap.org/ws/2004/09/transfer/"
)

// shell is one of the open shells. ctx ends what runs in it.
type shell struct {
	id       string
	ctx      context.Context
	end      context.CancelFunc
	idle     *time.Timer
	idleFor  time.Duration
	mu       sync.Mutex
	commands map[string]*command
}

// command is a running or ended command.
type command struct {
	id   string
	end  context.CancelFunc
	in   *io.PipeWriter
	mu   sync.Mutex
	cond chan struct{} // closed and made again with every change
	out  map[string]*bytes.Buffer
	done bool
	code int
}

type envelope struct {
	To        string `xml:"Header>To"`
	Action    string `xml:"Header>Action"`
	Message   string `xml:"Header>MessageID"`
	Resource  string `xml:"Header>ResourceURI"`
	Timeout   string `xml:"Header>OperationTimeout"`
	Selectors []struct {
		Name string `xml:"Name,attr"`
		Text string `xml:",chardata"`
	} `xml:"Header>SelectorSet>Selector"`
	Shell *struct {
		Idle string `xml:"IdleTimeOut"`
		In   string `xml:"InputStreams"`
		Out  string `xml:"OutputStreams"`
	} `xml:"Body>Shell"`
	Line *struct {
		Command   string   `xml:"Command"`
		Arguments []string `xml:"Arguments"`
	} `xml:"Body>CommandLine"`
	Send []struct {
		Name    string `xml:"Name,attr"`
		Command string `xml:"CommandId,attr"`
		End     string `xml:"End,attr"`
		Text    string `xml:",chardata"`
		much    []byte // in place of Text; nil = it is there
	} `xml:"Body>Send>Stream"`
	Receive *struct {
		Command string `xml:"CommandId,attr"`
	} `xml:"Body>Receive>DesiredStream"`
	Signal *struct {
		Command string `xml:"CommandId,attr"`
		Code    string `xml:"Code"`
	} `xml:"Body>Signal"`
}

// fault answers with a fault (DSP0226, 14).
func fault(w http.ResponseWriter, subcode, code, text string) {
	w.Header().Set("Content-Type", "application/soap+xml;charset=UTF-8")
	w.WriteHeader(http.StatusInternalServerError)
	fmt.Fprintf(w, `<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" `+
		`xmlns:w="http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd" `+
		`xmlns:f="http://schemas.microsoft.com/wbem/wsman/1/wsmanfault"><s:Body><s:Fault><s:Code>`+
		`<s:Value>s:Receiver</s:Value><s:Subcode><s:Value>%s</s:Value></s:Subcode></s:Code>`+
		`<s:Reason><s:Text xml:lang="en-US">%s</s:Text></s:Reason>`+
		`<s:Detail><f:WSManFault Code="%s" Machine="winrm.test"><f:Message>%s</f:Message></f:WSManFault></s:Detail>`+
		`</s:Fault></s:Body></s:Envelope>`, subcode, text, code, text)
}

func reply(w http.ResponseWriter, e envelope, body string) {
	w.Header().Set("Content-Type", "application/soap+xml;charset=UTF-8")
	fmt.Fprintf(w, `<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" `+
		`xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing" `+
		`xmlns:w="http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd" xmlns:x="http://schemas.xmlsoap.org/ws/2004/09/transfer" `+
		`xmlns:rsp="%s"><s:Header><a:Action>%sResponse</a:Action><a:RelatesTo>%s</a:RelatesTo></s:Header>`+
		`<s:Body>%s</s:Body></s:Envelope>`, nsShell, e.Action, e.Message, body)
}

func newID() string { return strings.ToUpper(rand.Text()[:8]) + "-0000-4000-8000-" + rand.Text()[:12] }

// stream is an output of a command.
type stream struct {
	c    *command
	name string
}

func (s stream) Write(b []byte) (int, error) {
	s.c.change(func() { s.c.out[s.name].Write(b) })
	return len(b), nil
}

func (c *command) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.cond)
	c.cond = make(chan struct{})
}

// find answers with a fault where there is no such command.
func (sh *shell) find(w http.ResponseWriter, id string) *command {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	c := sh.commands[id]
	if c == nil {
		fault(w, "w:InvalidSelectors", "2150858843", "there is no such command")
	}
	return c
}

// send gives a command what a message has for it, which fits input.
func (sh *shell) send(w http.ResponseWriter, e envelope, input []byte) {
	for _, st := range e.Send {
		c := sh.find(w, st.Command)
		if c == nil {
			return
		}
		if st.much == nil {
			st.much = []byte(st.Text)
		}
		n, err := decode(input, st.much)
		b := input[:n]
		if err != nil || st.Name != "stdin" {
			fault(w, "w:SchemaValidationError", "2150858817", "not a stream of input")
			return
		}
		if _, err := c.in.Write(b); err != nil && len(b) > 0 {
			fault(w, "w:InternalError", "109", "The pipe has been ended.") // ERROR_BROKEN_PIPE
			return
		}
		if st.End == "true" {
			_ = c.in.Close()
		}
	}
	reply(w, e, "<rsp:SendResponse/>")
}

func (sh *shell) receive(w http.ResponseWriter, r *http.Request, e envelope) {
	c := sh.find(w, e.Receive.Command)
	if c == nil {
		return
	}
	bound := time.Minute
	if d, err := time.ParseDuration(strings.ToLower(strings.TrimPrefix(e.Timeout, "PT"))); err == nil {
		bound = d
	}
	t := time.NewTimer(bound)
	defer t.Stop()
	for {
		c.mu.Lock()
		changed, body := c.cond, c.take()
		c.mu.Unlock()
		if body != "" {
			reply(w, e, "<rsp:ReceiveResponse>"+body+"</rsp:ReceiveResponse>")
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-sh.ctx.Done():
			fault(w, "w:InternalError", "995", "The shell has ended.") // ERROR_OPERATION_ABORTED
			return
		case <-t.C:
			fault(w, "w:TimedOut", "2150858793", "The operation did not complete within its time.")
			return
		}
	}
}

// maxOutput bounds the output in one reply, in bytes, so that the message keeps within MaxEnvelopeSize.
const maxOutput = 256 << 10

// take is the output that waits, and the state.
func (c *command) take() string {
	var b strings.Builder
	for _, name := range []string{"stdout", "stderr"} {
		if part := c.out[name].Next(maxOutput); len(part) > 0 {
			fmt.Fprintf(&b, `<rsp:Stream Name="%s" CommandId="%s">%s</rsp:Stream>`, name, c.id,
				base64.StdEncoding.EncodeToString(part))
		}
	}
	rest := c.out["stdout"].Len() + c.out["stderr"].Len()
	switch {
	case c.done && rest == 0:
		fmt.Fprintf(&b, `<rsp:CommandState CommandId="%s" State="%s/CommandState/Done"><rsp:ExitCode>%d</rsp:ExitCode>`+
			`</rsp:CommandState>`, c.id, nsShell, c.code)
	case b.Len() > 0:
		fmt.Fprintf(&b, `<rsp:CommandState CommandId="%s" State="%s/CommandState/Running"/>`, c.id, nsShell)
	}
	return b.String()
}

func (sh *shell) signal(w http.ResponseWriter, e envelope) {
	c := sh.find(w, e.Signal.Command)
	if c == nil {
		return
	}
	c.end()
	sh.mu.Lock()
	delete(sh.commands, c.id)
	sh.mu.Unlock()
	reply(w, e, "<rsp:SignalResponse/>")
}
