package steps

import (
	"fmt"
	"strings"

	"nodejoin/steps/host"
	"nodejoin/steps/record"
)

// OwnershipMark ends the description of every service that nodejoin registers.
const OwnershipMark = "(managed by nodejoin)"

// Ours reports whether nodejoin registered the service: by the mark in its
// description, or, where a registration was interrupted, by the record.
func Ours(svc host.Service, rec *record.Record) bool {
	if strings.HasSuffix(strings.TrimSpace(svc.Description), OwnershipMark) {
		return true
	}
	if rec == nil {
		return false
	}
	for key, c := range rec.Claims {
		if key.Prefix == record.Service && strings.EqualFold(key.Name, svc.Name) && !c.Existed {
			return true
		}
	}
	return false
}

// ForeignRemedy is what to do about a service that nodejoin did not register.
func ForeignRemedy(name string) string {
	return fmt.Sprintf("remove service %s with the tool that registered it, or let that tool keep the machine; "+
		"nodejoin does not take over what it did not make", name)
}
