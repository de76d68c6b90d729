package host

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Addresses normalizes a list of addresses of a firewall rule: "" for any, otherwise addresses and networks
// (ADDRESS/BITS, a single address without bits), sorted, without duplicates, separated by commas. The
// firewall returns "192.0.2.1" as "192.0.2.1/255.255.255.255" or as a range of one, and accepts all of these
// (learn.microsoft.com, INetFwRule::put_RemoteAddresses). Anything else is kept, in lower case.
func Addresses(list string) string {
	var out []string
	for part := range strings.SplitSeq(list, ",") {
		switch part = strings.ToLower(strings.TrimSpace(part)); part {
		case "":
		case "*", "any":
			return ""
		default:
			out = append(out, address(part))
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}

func address(text string) string {
	if first, last, ok := strings.Cut(text, "-"); ok {
		if first == last {
			return address(first)
		}
		return text
	}
	if at, mask, ok := strings.Cut(text, "/"); ok {
		if m := net.ParseIP(mask).To4(); m != nil {
			ones, bits := net.IPMask(m).Size()
			if bits == 0 {
				return text // not the mask of a network
			}
			ip, err := netip.ParseAddr(at)
			if err != nil {
				return text
			}
			text = netip.PrefixFrom(ip, ones).String()
		}
	}
	if p, err := netip.ParsePrefix(text); err == nil {
		if p.IsSingleIP() {
			return p.Addr().String()
		}
		return p.Masked().String()
	}
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.String()
	}
	return text
}

// ValidAddresses reports whether a list holds only addresses and networks.
func ValidAddresses(list string) bool {
	normal := Addresses(list)
	if normal == "" {
		return list == "" || list == "*"
	}
	for part := range strings.SplitSeq(normal, ",") {
		_, err1 := netip.ParseAddr(part)
		_, err2 := netip.ParsePrefix(part)
		if err1 != nil && err2 != nil {
			return false
		}
	}
	return true
}

// GlobalIPv6 returns the IPv6 addresses at which other machines can reach this one, sorted.
func GlobalIPv6() ([]string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() == nil && n.IP.IsGlobalUnicast() {
			out = append(out, n.IP.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
