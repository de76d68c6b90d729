package sandbox

import (
	"context"
	"io/fs"
	"slices"

	"nodejoin/steps/host"
)

// The services that come with the feature Containers, once the machine has booted with it.
var containerServices = []string{"hns", "vmcompute"}

const servicesKey = `hklm\system\currentcontrolset\services\`

// factoryFeatures are the features and capabilities of a fresh machine.
var factoryFeatures = map[string]host.FeatureState{"Containers": host.FeatureOn, "Microsoft-Hyper-V": host.FeatureOff,
	sshCapability: host.FeatureRemoved}

// feature returns the state of a feature, "" if Windows does not know it.
func (h *Host) feature(s *state, q Quirks, name string) host.FeatureState {
	if have, ok := s.Features[h.fold(name)]; ok {
		return have
	}
	for _, all := range []map[string]host.FeatureState{q.Features, factoryFeatures} {
		for known, have := range all {
			if h.fold(known) == h.fold(name) {
				return have
			}
		}
	}
	return ""
}

// Feature returns the state of a feature.
func (h *Host) Feature(ctx context.Context, name string) (out host.FeatureState, err error) {
	q, err := h.ask(ctx, "Feature", name)
	if err != nil {
		return "", err
	}
	err = h.view(ctx, "read feature", name, func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		if out = h.feature(s, q, name); out == "" {
			return fs.ErrNotExist
		}
		return nil
	})
	return out, err
}

// EnableFeature turns a feature on. It takes effect at the next reboot, as in Windows for the features that a
// node needs.
func (h *Host) EnableFeature(ctx context.Context, name string) error {
	return h.setFeature(ctx, "enable feature", name, host.FeatureOn, host.FeatureOnPending)
}

// DisableFeature turns a feature off at the next reboot.
func (h *Host) DisableFeature(ctx context.Context, name string) error {
	return h.setFeature(ctx, "disable feature", name, host.FeatureOff, host.FeatureOffPending)
}

func (h *Host) setFeature(ctx context.Context, op, name string, want, pending host.FeatureState) error {
	q, err := h.quirks()
	if err != nil {
		return failed(op, name, err)
	}
	return failed(op, name, h.change(ctx, func(s *state) error {
		if !h.windows() {
			return host.ErrUnsupported
		}
		have := h.feature(s, q, name)
		if have != "" && h.fold(name) == h.fold(sshCapability) {
			return h.setSSH(s, want)
		}
		set := func(f host.FeatureState) {
			if s.Features == nil {
				s.Features = map[string]host.FeatureState{}
			}
			s.Features[h.fold(name)] = f
		}
		switch have {
		case "":
			return fs.ErrNotExist
		case want, pending:
		case host.FeatureOnPending, host.FeatureOffPending:
			set(want) // the pending change is canceled
		default:
			set(pending)
		}
		return nil
	}))
}

// finishFeatures is the part of a boot that finishes pending changes.
func (h *Host) finishFeatures(s *state) {
	for name, f := range s.Features {
		on := f == host.FeatureOnPending
		if !on && f != host.FeatureOffPending {
			continue
		}
		s.Features[name] = host.FeatureOff
		if on {
			s.Features[name] = host.FeatureOn
		}
		if name != h.fold("Containers") {
			continue
		}
		for _, service := range containerServices {
			if on {
				s.Registry[servicesKey+service] = map[string]host.RegistryValue{"start": {Type: "dword", Number: 3}}
			} else {
				delete(s.Registry, servicesKey+service)
			}
		}
	}
}

// servicingKeys are the keys that Windows sets while it waits for a reboot.
var servicingKeys = []string{
	`hklm\software\microsoft\windows\currentversion\component based servicing\rebootpending`,
	`hklm\software\microsoft\windows\currentversion\windowsupdate\auto update\rebootrequired`,
}

// finishServicing is the part of a boot that removes these keys.
func finishServicing(s *state) {
	for _, key := range servicingKeys {
		delete(s.Registry, key)
	}
}

// WithoutContainers turns the feature Containers off, as it is on a fresh server.
func (h *Host) WithoutContainers(ctx context.Context) error {
	return failed("disable feature", "Containers", h.change(ctx, func(s *state) error {
		if s.Features == nil {
			s.Features = map[string]host.FeatureState{}
		}
		s.Features[h.fold("Containers")] = host.FeatureOff
		for _, service := range containerServices {
			delete(s.Registry, servicesKey+service)
		}
		return nil
	}))
}

// RebootNoted returns the notes since the last boot.
func (h *Host) RebootNoted(ctx context.Context) (out []string, err error) {
	if _, err := h.ask(ctx, "RebootNoted", "reboot"); err != nil {
		return nil, err
	}
	err = h.view(ctx, "read what needs a reboot of", h.cfg.Hostname, func(s *state) error {
		out = slices.Clone(s.Noted)
		return nil
	})
	return out, err
}

// NoteReboot notes what needs a reboot.
func (h *Host) NoteReboot(ctx context.Context, what string) error {
	return failed("note a reboot for", what, h.change(ctx, func(s *state) error {
		if !slices.Contains(s.Noted, what) {
			s.Noted = append(s.Noted, what)
			slices.Sort(s.Noted)
		}
		return nil
	}))
}
