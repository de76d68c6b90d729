package main

import (
	"slices"
	"strconv"
	"strings"
)

// Profiles of Windows' firewall, NET_FW_PROFILE_TYPE2.
const (
	profilePrivate = 2
	profilePublic  = 4
)

// ownRule is the rule that OpenSSH brings on Windows Server 2025, for domain and private networks only. It has the
// port of this server, in the form in which netfw_rules.c stores it.
func ownRule(port string) string {
	return "v2.31|Name=OpenSSH SSH Server (sshd)|Protocol=6|LPort=" + port +
		"|Dir=In|Active=TRUE|EmbedCtxt=OpenSSH Server|Profile=3|Action=Allow|"
}

// admits reports whether a rule lets others reach a port of TCP in a network of that profile.
func admits(rule string, port, profile int) bool {
	has := map[string]string{}
	for field := range strings.SplitSeq(rule, "|") {
		name, value, _ := strings.Cut(field, "=")
		has[name] = value
	}
	profiles, err := strconv.Atoi(has["Profile"])
	ports := strings.Split(has["LPort"], ",")
	return has["Active"] == "TRUE" && has["Dir"] == "In" && has["Action"] == "Allow" && has["Protocol"] == "6" &&
		(err != nil || profiles&profile != 0) && (has["LPort"] == "" || slices.Contains(ports, strconv.Itoa(port)))
}
