package wsman

import (
	"bytes"
	"crypto/rand"
	"encoding/xml"
	"fmt"
	"strings"
)

// MaxEnvelope is the longest message that WinRM takes by default, in bytes: MaxEnvelopeSizekb is 500.
const MaxEnvelope = 500 << 10

// Namespaces and addresses: DSP0226 and MS-WSMV, 2.2.1.
const (
	nsSoap       = "http://www.w3.org/2003/05/soap-envelope"
	nsAddressing = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
	nsWsman      = "http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd"
	nsMicrosoft  = "http://schemas.microsoft.com/wbem/wsman/1/wsman.xsd"
	nsShell      = "http://schemas.microsoft.com/wbem/wsman/1/windows/shell"
	resourceCmd  = nsShell + "/cmd"
	transfer     = "http://schemas.xmlsoap.org/ws/2004/09/transfer/"
)

// request is a message to a machine.
type request struct {
	action  string
	shell   string // id; "" = none yet
	options [][2]string
	body    string // XML, with the prefix rsp for nsShell
	input   []byte // follows the body, in base64
	after   string // follows the input
	timeout int    // seconds, after which the machine answers that there is nothing yet
}

// message is the request in XML. Its values are our own or escaped.
func (r request) message(url string) message {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?><s:Envelope xmlns:s="%s" xmlns:a="%s" xmlns:w="%s" `+
		`xmlns:p="%s" xmlns:rsp="%s"><s:Header><a:To>%s</a:To><a:ReplyTo>`+
		`<a:Address s:mustUnderstand="true">%s/role/anonymous`+
		`</a:Address></a:ReplyTo><w:MaxEnvelopeSize s:mustUnderstand="true">%d</w:MaxEnvelopeSize>`+
		`<a:MessageID>uuid:%s</a:MessageID><w:Locale xml:lang="en-US" s:mustUnderstand="false"/>`+
		`<p:DataLocale xml:lang="en-US" s:mustUnderstand="false"/><w:OperationTimeout>PT%d.000S</w:OperationTimeout>`+
		`<w:ResourceURI s:mustUnderstand="true">%s</w:ResourceURI><a:Action s:mustUnderstand="true">%s</a:Action>`,
		nsSoap, nsAddressing, nsWsman, nsMicrosoft, nsShell, escape(url), nsAddressing, MaxEnvelope, newID(), r.timeout,
		resourceCmd, r.action)
	if r.shell != "" {
		fmt.Fprintf(&b, `<w:SelectorSet><w:Selector Name="ShellId">%s</w:Selector></w:SelectorSet>`, escape(r.shell))
	}
	if len(r.options) > 0 {
		b.WriteString(`<w:OptionSet>`)
		for _, o := range r.options {
			fmt.Fprintf(&b, `<w:Option Name="%s">%s</w:Option>`, o[0], o[1])
		}
		b.WriteString(`</w:OptionSet>`)
	}
	b.WriteString(`</s:Header><s:Body>` + r.body)
	return message{head: b.Bytes(), input: r.input, tail: []byte(r.after + `</s:Body></s:Envelope>`)}
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // to memory
	return b.String()
}

// FaultError is the refusal of a request.
type FaultError struct {
	Subcode string // "w:TimedOut" without its prefix
	Code    string // of Windows, decimal; "" = none
	Text    string
}

func (f *FaultError) Error() string {
	text := strings.Join(strings.Fields(f.Text), " ")
	if f.Code != "" {
		text += " (" + f.Code + ")"
	}
	return text
}

// codeTimeout is ERROR_WSMAN_OPERATION_TIMEDOUT: there was no output yet.
const codeTimeout = "2150858793"

func (f *FaultError) timedOut() bool { return f.Subcode == "TimedOut" || f.Code == codeTimeout }

// codeDenied is ERROR_ACCESS_DENIED.
const codeDenied = "5"

// Denied reports whether the machine refuses the user what it asks for.
func (f *FaultError) Denied() bool { return f.Code == codeDenied || f.Subcode == "AccessDenied" }

// parseFault is the fault in a message; nil = there is none.
func parseFault(text []byte) *FaultError {
	var m struct {
		Fault *struct {
			Code struct {
				Subcode struct {
					Value string `xml:"Value"`
				} `xml:"Subcode"`
			} `xml:"Code"`
			Reason struct {
				Text string `xml:"Text"`
			} `xml:"Reason"`
			Detail struct {
				WSMan struct {
					Code string `xml:"Code,attr"`
				} `xml:"WSManFault"`
			} `xml:"Detail"`
		} `xml:"Body>Fault"`
	}
	if xml.Unmarshal(text, &m) != nil || m.Fault == nil {
		return nil //nolint:nilerr // what is not XML is not a fault
	}
	subcode := m.Fault.Code.Subcode.Value
	return &FaultError{Subcode: subcode[strings.LastIndex(subcode, ":")+1:], Code: m.Fault.Detail.WSMan.Code,
		Text: m.Fault.Reason.Text}
}

// newID is a random UUID (RFC 9562), in upper case as Windows writes them.
func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%X-%X-%X-%X-%X", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
