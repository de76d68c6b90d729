package wsman

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Chunk is how many bytes of input fit a message of MaxEnvelope, in which they are in base64 between less than 4 KiB
// of XML.
const Chunk = (MaxEnvelope - 4<<10) / 4 * 3

const (
	// idle is after how many seconds without a request the machine ends a shell and what runs in it.
	idle = 180
	// waitFor is how many seconds the machine waits for output before it answers that there is none.
	waitFor = 20
	// answerIn is how many seconds another request may take the machine.
	answerIn = 60
)

// Shell is a cmd.exe shell of a machine, in the home folder of the user.
type Shell struct {
	c  *Client
	id string
}

// Open opens a shell; the machine checks the login.
func (c *Client) Open(ctx context.Context) (*Shell, error) {
	text, err := c.do(ctx, laneWork, request{action: transfer + "Create", timeout: answerIn,
		options: [][2]string{{"WINRS_NOPROFILE", "FALSE"}, {"WINRS_CODEPAGE", "65001"}},
		body: fmt.Sprintf(`<rsp:Shell><rsp:IdleTimeOut>PT%d.000S</rsp:IdleTimeOut><rsp:InputStreams>stdin`+
			`</rsp:InputStreams><rsp:OutputStreams>stdout stderr</rsp:OutputStreams></rsp:Shell>`, idle)})
	if err != nil {
		return nil, err
	}
	var m struct {
		Shell     string `xml:"Body>Shell>ShellId"`
		Selectors []struct {
			Name string `xml:"Name,attr"`
			Text string `xml:",chardata"`
		} `xml:"Body>ResourceCreated>ReferenceParameters>SelectorSet>Selector"`
	}
	if err := xml.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("the answer to a new shell: %w", err)
	}
	for _, s := range m.Selectors {
		if s.Name == "ShellId" {
			m.Shell = s.Text
		}
	}
	if m.Shell == "" {
		return nil, errors.New("the machine answers to a new shell without its id")
	}
	return &Shell{c: c, id: strings.TrimSpace(m.Shell)}, nil
}

// Delete ends the shell and what runs in it.
func (s *Shell) Delete(ctx context.Context) error {
	_, err := s.c.do(ctx, laneWork, request{action: transfer + "Delete", shell: s.id, timeout: answerIn})
	return err
}

// Command is a command that runs in a shell.
type Command struct {
	s  *Shell
	id string
}

// Start starts a command line of cmd.exe.
func (s *Shell) Start(ctx context.Context, line string) (*Command, error) {
	text, err := s.c.do(ctx, laneWork, request{action: nsShell + "/Command", shell: s.id, timeout: answerIn,
		options: [][2]string{{"WINRS_CONSOLEMODE_STDIN", "FALSE"}, {"WINRS_SKIP_CMD_SHELL", "FALSE"}},
		body:    `<rsp:CommandLine><rsp:Command>` + escape(line) + `</rsp:Command></rsp:CommandLine>`})
	if err != nil {
		return nil, err
	}
	var m struct {
		ID string `xml:"Body>CommandResponse>CommandId"`
	}
	if err := xml.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("the answer to a command: %w", err)
	}
	if m.ID == "" {
		return nil, errors.New("the machine answers to a command without its id")
	}
	return &Command{s: s, id: strings.TrimSpace(m.ID)}, nil
}

// Send sends input, at most Chunk bytes; with end the input is over. b may be written to again only if there is no
// error.
func (c *Command) Send(ctx context.Context, b []byte, end bool) error {
	_, err := c.s.c.do(ctx, laneWork, c.input(b, end))
	return err
}

func (c *Command) input(b []byte, end bool) request {
	over := ""
	if end {
		over = ` End="true"`
	}
	return request{action: nsShell + "/Send", shell: c.s.id, timeout: answerIn,
		body:  `<rsp:Send><rsp:Stream Name="stdin" CommandId="` + escape(c.id) + `"` + over + `>`,
		input: b, after: `</rsp:Stream></rsp:Send>`}
}

// Output is what a command wrote, and how it ended.
type Output struct {
	Stdout, Stderr []byte
	Done           bool
	ExitCode       int // with Done
}

// Receive waits for output, up to some seconds; there may be none then.
func (c *Command) Receive(ctx context.Context) (o Output, err error) {
	text, err := c.s.c.do(ctx, laneWait, request{action: nsShell + "/Receive", shell: c.s.id, timeout: waitFor,
		options: [][2]string{{"WSMAN_CMDSHELL_OPTION_KEEPALIVE", "TRUE"}},
		body: fmt.Sprintf(`<rsp:Receive><rsp:DesiredStream CommandId="%s">stdout stderr</rsp:DesiredStream></rsp:Receive>`,
			escape(c.id))})
	var f *FaultError
	if errors.As(err, &f) && f.timedOut() {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	var m struct {
		Streams []struct {
			Name    string `xml:"Name,attr"`
			Command string `xml:"CommandId,attr"`
			Text    string `xml:",chardata"`
		} `xml:"Body>ReceiveResponse>Stream"`
		State struct {
			State string `xml:"State,attr"`
			Exit  string `xml:"ExitCode"`
		} `xml:"Body>ReceiveResponse>CommandState"`
	}
	if err := xml.Unmarshal(text, &m); err != nil {
		return o, fmt.Errorf("the output of a command: %w", err)
	}
	for _, s := range m.Streams {
		b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(s.Text), ""))
		switch {
		case err != nil:
			return o, fmt.Errorf("the output of a command: %w", err)
		case !strings.EqualFold(s.Command, c.id):
			return o, errors.New("the machine answers with the output of another command")
		case s.Name == "stdout":
			o.Stdout = append(o.Stdout, b...)
		case s.Name == "stderr":
			o.Stderr = append(o.Stderr, b...)
		}
	}
	if strings.HasSuffix(m.State.State, "/CommandState/Done") {
		o.Done = true
		if o.ExitCode, err = strconv.Atoi(strings.TrimSpace(m.State.Exit)); err != nil {
			return o, fmt.Errorf("the exit code of a command: %w", err)
		}
	}
	return o, nil
}

// Terminate ends the command. One that has ended is forgotten by the machine.
func (c *Command) Terminate(ctx context.Context) error {
	_, err := c.s.c.do(ctx, laneWork, request{action: nsShell + "/Signal", shell: c.s.id, timeout: answerIn,
		body: fmt.Sprintf(`<rsp:Signal CommandId="%s"><rsp:Code>%s/signal/terminate</rsp:Code></rsp:Signal>`, escape(c.id),
			nsShell)})
	return err
}
