package names

import "regexp"

// registryHost is the host part of an image's name (distribution reference/regexp.go,
// DomainRegexp; in lower case, because folders on Windows ignore case).
var registryHost = regexp.MustCompile(
	`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*(:[0-9]{1,5})?$`)

// IsRegistryHost reports whether a text is the host, or host:port, of a registry.
func IsRegistryHost(text string) bool { return registryHost.MatchString(text) }
