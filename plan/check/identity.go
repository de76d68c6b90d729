package check

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// Bounds of the API server.
const (
	maxCredentialSpec = 64 << 10 // bytes
	maxUserDomain     = 255      // characters of DOMAIN
	maxUser           = 104      // characters of USER
)

var (
	controlCharacter = regexp.MustCompile(`[[:cntrl:]]`)
	netBIOSDomain    = regexp.MustCompile(`^[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}$`)
	dnsDomain        = regexp.MustCompile(`^` + dnsLabel + `(\.` + dnsLabel + `)*$`)
	userCharacter    = regexp.MustCompile(`["/\\:;|=,+*?<>@\[\]]`)
	objectName       = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

const dnsLabel = `[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?`

// userNameFault returns what is wrong with a runAsUserName, "" if nothing is.
func userNameFault(name string) string {
	domain, user, hasDomain := strings.Cut(name, `\`)
	if !hasDomain {
		user = domain
	}
	switch {
	case name == "":
		return "it is empty"
	case controlCharacter.MatchString(name):
		return "it contains a control character"
	case strings.Count(name, `\`) > 1:
		return "it has more than one backslash"
	case hasDomain && (len(domain) > maxUserDomain ||
		!netBIOSDomain.MatchString(domain) && !dnsDomain.MatchString(domain)):
		return "the part before the backslash is not the name of a domain"
	case user == "":
		return "it has no user after the backslash"
	case len(user) > maxUser:
		return "the user is longer than 104 characters"
	case strings.Trim(user, ". ") == "":
		return "the user consists of periods and spaces"
	case userCharacter.MatchString(user):
		return `the user contains one of " / \ : ; | = , + * ? < > @ [ ]`
	}
	return ""
}

// identities checks the accounts of a pod and of its containers.
func (k *checker) identities(spec value) {
	for _, in := range append([]value{spec}, containers(spec)...) {
		options := in.at("securityContext", "windowsOptions")
		if v := options.get("runAsUserName"); v.there() {
			if fault := userNameFault(v.str()); fault != "" {
				k.find("run-as-user-name", v, "runAsUserName is %q: %s", v.str(), fault)
			}
		}
		k.managedAccount(options)
	}
	for _, c := range containers(spec) {
		user := c.at("securityContext", "windowsOptions", "runAsUserName")
		if !user.there() {
			user = spec.at("securityContext", "windowsOptions", "runAsUserName")
		}
		nonRoot := c.at("securityContext", "runAsNonRoot")
		if !nonRoot.there() {
			nonRoot = spec.at("securityContext", "runAsNonRoot")
		}
		if nonRoot.yes() && strings.EqualFold(user.str(), "ContainerAdministrator") {
			k.find("run-as-non-root", user, "the container %s runs as %s, with runAsNonRoot: true", c.get("name").str(),
				user.str())
		}
	}
}

// managedAccount checks the group managed service account of a pod or container.
func (k *checker) managedAccount(options value) {
	name, text := options.get("gmsaCredentialSpecName"), options.get("gmsaCredentialSpec")
	switch {
	case name.there() && !objectName.MatchString(name.str()):
		k.find("gmsa", name, "%q is not the name of an object", name.str())
	case name.there() && !text.there() && !slices.Contains(k.cluster.Accounts, name.str()):
		k.find("gmsa-unknown", name, "unknown GMSACredentialSpec %q", name.str())
	}
	switch {
	case !text.there():
	case text.str() == "":
		k.find("gmsa", text, "gmsaCredentialSpec is empty")
	case len(text.str()) > maxCredentialSpec:
		k.find("gmsa", text, "gmsaCredentialSpec has %d bytes; 64 KiB are the limit", len(text.str()))
	default:
		var s credentialSpec
		if err := json.Unmarshal([]byte(text.str()), &s); err != nil {
			k.find("gmsa-credential-spec", text, "gmsaCredentialSpec is not JSON: %v", err)
		} else if lack := s.lack(); lack != "" {
			k.find("gmsa-credential-spec", text, "gmsaCredentialSpec %s", lack)
		}
	}
}

// credentialSpec is what a credential spec needs.
type credentialSpec struct {
	CmsPlugins            []string
	ActiveDirectoryConfig struct {
		GroupManagedServiceAccounts []namedAccount
	}
}

type namedAccount struct{ Name string }

// lack returns what it lacks, "" if nothing.
func (s credentialSpec) lack() string {
	accounts := s.ActiveDirectoryConfig.GroupManagedServiceAccounts
	switch {
	case !slices.Contains(s.CmsPlugins, "ActiveDirectory"):
		return `has no "ActiveDirectory" in CmsPlugins`
	case len(accounts) == 0 || accounts[0].Name == "":
		return "names no account in ActiveDirectoryConfig.GroupManagedServiceAccounts"
	}
	return ""
}

// account checks a GMSACredentialSpec.
func (k *checker) account() {
	in := k.object.get("credspec")
	if !in.there() {
		k.find("gmsa-credential-spec", k.object.get("metadata"), "the object has no credspec")
		return
	}
	var s credentialSpec
	for _, p := range in.get("CmsPlugins").list() {
		s.CmsPlugins = append(s.CmsPlugins, p.str())
	}
	for _, a := range in.at("ActiveDirectoryConfig", "GroupManagedServiceAccounts").list() {
		list := &s.ActiveDirectoryConfig.GroupManagedServiceAccounts
		*list = append(*list, namedAccount{a.get("Name").str()})
	}
	if lack := s.lack(); lack != "" {
		k.find("gmsa-credential-spec", in, "credspec %s", lack)
	}
}

// linuxOptions finds windowsOptions in a pod that says it is for Linux.
func (k *checker) linuxOptions(spec value) {
	if spec.at("os", "name").str() != "linux" {
		return
	}
	for _, in := range append([]value{spec}, containers(spec)...) {
		if v := in.at("securityContext", "windowsOptions"); v.there() {
			k.find("windows-options", v, "the pod has windowsOptions, and its spec.os.name is linux")
		}
	}
}
