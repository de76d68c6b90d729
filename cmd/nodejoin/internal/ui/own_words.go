package ui

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"nodejoin/steps/engine"
)

// words are values of one host, and what stands for each in the text of a group. The nil value changes nothing.
type words struct {
	list []word // the longest value first
	pods netip.Prefix
}

type word struct{ value, name string }

const (
	podAddress  = "<address in the pod network>"
	certificate = "<certificate>\n"
)

// ownWords are the names and addresses of a host.
func ownWords(h engine.HostReport) *words {
	w := &words{}
	add := func(name string, values ...string) {
		for _, v := range values {
			has := func(x word) bool { return x.value == v }
			if v != "" && !slices.ContainsFunc(w.list, has) {
				w.list = append(w.list, word{v, name})
			}
		}
	}
	add("<node>", h.Node.Name)
	add("<hostname>", h.Facts.Hostname, strings.ToLower(h.Facts.Hostname))
	add("<address>", h.Facts.ManagementIP)
	if n := h.KubeNode; n != nil {
		add("<address>", n.InternalIP)
		add("<pod network>", n.PodCIDR)
		w.pods, _ = netip.ParsePrefix(n.PodCIDR)
	}
	if s := h.Node.Connection.SSH; s != nil {
		add("<address>", s.Host)
	}
	if s := h.Node.Connection.WinRM; s != nil {
		add("<address>", s.Host)
	}
	add("<address>", h.Facts.IPv6...)
	slices.SortStableFunc(w.list, func(a, b word) int { return len(b.value) - len(a.value) })
	return w
}

// differing are the words of the first host that are not the same for all.
func differing(hosts []engine.HostReport) *words {
	if len(hosts) < 2 {
		return nil
	}
	w := ownWords(hosts[0])
	same := w.list
	for _, h := range hosts[1:] {
		other := ownWords(h).list
		same = slices.DeleteFunc(slices.Clone(same), func(x word) bool { return !slices.Contains(other, x) })
	}
	w.list = slices.DeleteFunc(w.list, func(x word) bool { return slices.Contains(same, x) })
	return w
}

var (
	addresses = regexp.MustCompile(`[0-9a-fA-F.:]*[0-9a-fA-F][.:][0-9a-fA-F.:]*(/\d+)?`)
	pemBlocks = regexp.MustCompile(`-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----\n?`)
)

// in is text with the host's own values replaced.
func (w *words) in(text string) string {
	if w == nil {
		return text
	}
	text = pemBlocks.ReplaceAllString(text, certificate)
	for _, x := range w.list {
		text = replaceWord(text, x.value, x.name)
	}
	if !w.pods.IsValid() {
		return text
	}
	return addresses.ReplaceAllStringFunc(text, func(s string) string {
		plain, _, _ := strings.Cut(s, "/")
		if a, err := netip.ParseAddr(plain); err == nil && w.pods.Contains(a) {
			return podAddress
		}
		return s
	})
}

// replaceWord replaces a value where it is not part of a longer word.
func replaceWord(text, value, by string) string {
	var b strings.Builder
	last := byte(' ')
	for {
		i := strings.Index(text, value)
		if i < 0 {
			return b.String() + text
		}
		before, after := last, byte(' ')
		if i > 0 {
			before = text[i-1]
		}
		if end := i + len(value); end < len(text) {
			after = text[end]
		}
		b.WriteString(text[:i])
		if wordByte(before) || wordByte(after) {
			b.WriteString(value)
		} else {
			b.WriteString(by)
		}
		last = value[len(value)-1]
		text = text[i+len(value):]
	}
}

func wordByte(c byte) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
