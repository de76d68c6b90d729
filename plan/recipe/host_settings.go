package recipe

import (
	"encoding/pem"
	"fmt"

	"nodejoin/steps/kinds"
)

// hostName is the id of the step that gives the machine its name.
const hostName = "host_name"

// HostName is the machine's own name.
func HostName(name, os string) []Setting {
	title := "Host name " + name
	if os == "windows" {
		title += afterBoot
	}
	return []Setting{{ID: hostName, Title: title, Kind: "host_name", Args: &kinds.HostName{Name: name}}}
}

// HostName is the name that the settings give the machine; "" = they leave it.
func (s Settings) HostName() string {
	for _, one := range s.Steps {
		if n, ok := one.Args.(*kinds.HostName); ok {
			return n.Name
		}
	}
	return ""
}

// TrustedCAs are certificate authorities that the machine trusts, in PEM. One text may hold several.
func TrustedCAs(texts []string) []Setting {
	var out []Setting
	for _, text := range texts {
		list, err := kinds.Authorities(text)
		if err != nil {
			continue // the plan provides it
		}
		for _, ca := range list {
			out = append(out, Setting{ID: fmt.Sprintf("trusted_ca_%d", len(out)+1),
				Title: "Trusted authority " + ca.Subject.String(), Kind: "trusted_ca",
				Args: &kinds.TrustedCA{Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}))}})
		}
	}
	return out
}
