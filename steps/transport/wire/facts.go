package wire

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"nodejoin/steps/host"
)

// verifyFacts says which fact cannot be one. Facts fill the arguments of steps, also of those that run on the
// cluster.
func verifyFacts(f host.Facts) error {
	for _, c := range []struct {
		name, value string
		is          func(string) bool
	}{
		{"os", f.OS, oneOf("windows", "linux")},
		{"arch", f.Arch, oneOf("", "amd64", "arm64", "386", "arm", "ppc64le", "s390x", "riscv64", "loong64")},
		{"hostname", f.Hostname, func(s string) bool { return s == "" || len(s) <= 255 && hostNamed(s) }},
		{"build", f.Build, short},
		{"product", f.Product, short},
		{"management_ip", f.ManagementIP, func(s string) bool { return s == "" || unicast(s) }},
		{"interface", f.Interface, short},
		{"subnet", f.Subnet, func(s string) bool { return s == "" || network(s) }},
		{"data_dir", f.DataDir, func(s string) bool { return s == "" || len(s) <= 1024 && rooted(f.OS, s) }},
		{"init", f.Init, oneOf("", "systemd")},
		{"cgroup", f.Cgroup, oneOf("", "v1", "v2")},
		{"resolv_conf", f.ResolvConf, func(s string) bool { return s == "" || len(s) <= 1024 && rooted("linux", s) }},
	} {
		if !c.is(c.value) {
			return fmt.Errorf("the fact %s is %.80q", c.name, c.value)
		}
	}
	if f.CPUs < 0 || f.CPUs > 1<<16 {
		return fmt.Errorf("the fact cpus is %d", f.CPUs)
	}
	if len(f.IPv6) > 256 {
		return fmt.Errorf("%d addresses in the fact ipv6", len(f.IPv6))
	}
	for _, text := range f.IPv6 {
		if ip, err := netip.ParseAddr(text); err != nil || !ip.Is6() {
			return fmt.Errorf("the fact ipv6 has %.80q", text)
		}
	}
	return nil
}

func oneOf(words ...string) func(string) bool {
	return func(s string) bool { return slices.Contains(words, s) }
}

// short is a line for people that arguments may hold as well; an escape in it was not printable.
func short(s string) bool { return len(s) <= 256 && !strings.ContainsAny(s, "\\\n") }

// hostNamed allows the names of RFC 1123 with their domain, and the wider ones that machines have.
func hostNamed(s string) bool {
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if host.CheckHostName(label) != nil || strings.ContainsAny(label, `'&;$`+"`") {
			return false
		}
	}
	return true
}

func unicast(s string) bool {
	ip, err := netip.ParseAddr(s)
	return err == nil && !ip.IsUnspecified() && !ip.IsMulticast() && ip.Zone() == ""
}

func network(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil
}

// rooted reports whether a path is absolute and no part of it leads upwards.
func rooted(os, p string) bool {
	if os == "windows" {
		p = strings.ReplaceAll(p, `\`, "/")
		if len(p) < 3 || p[1] != ':' {
			return false
		}
		p = p[2:]
	} else if strings.Contains(p, `\`) { // what was not printable
		return false
	}
	return strings.HasPrefix(p, "/") && !slices.Contains(strings.Split(p, "/"), "..") && !strings.Contains(p, "\n")
}
