// Package hosttest is the suite that every host.Host passes. It tests each sentence of the contract in package
// host on a machine.
//
// It needs only the standard library, so that it can be built into a test program for any machine.
package hosttest

import (
	"context"
	"testing"
	"time"
)

// Run runs the suite. open returns a machine for each of its tests.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	for _, test := range []struct {
		name string
		f    func(*suite)
	}{
		{"facts", (*suite).facts},
		{"files/write", (*suite).write},
		{"files/interrupted write", (*suite).interruptedWrite},
		{"files/digest", (*suite).digest},
		{"files/exclusive", (*suite).exclusive},
		{"files/list", (*suite).list},
		{"files/absence", (*suite).absence},
		{"files/access", (*suite).access},
		{"files/rename", (*suite).rename},
		{"files/remove", (*suite).remove},
		{"files/mkdir", (*suite).mkdir},
		{"files/unmount", (*suite).unmount},
		{"files/free space", (*suite).freeSpace},
		{"files/paths", (*suite).badPaths},
		{"services/config", (*suite).serviceConfig},
		{"services/parameters", (*suite).serviceParameters},
		{"services/invalid", (*suite).serviceInvalid},
		{"services/run", (*suite).serviceRun},
		{"services/start", (*suite).serviceStart},
		{"services/dependents", (*suite).serviceDependents},
		{"services/program in use", (*suite).programInUse},
		{"programs/run", (*suite).programRun},
		{"programs/killed", (*suite).programKilled},
		{"registry", (*suite).registry},
		{"registry/names", (*suite).registryNames},
		{"environment", (*suite).environment},
		{"firewall", (*suite).firewall},
		{"kernel", (*suite).kernel},
		{"ports/dynamic", (*suite).dynamicPorts},
		{"ports/reserved", (*suite).reservedPorts},
		{"ports/excluded", (*suite).excludedPorts},
		{"trusted authorities", (*suite).trustedCAs},
		{"features", (*suite).features},
		{"host name", (*suite).hostName},
		{"reboot noted", (*suite).rebootNoted},
		{"probes/http", (*suite).probeHTTP},
		{"probes/pipe", (*suite).probePipe},
		{"probes/api", (*suite).probeAPI},
		{"survey/adapters", (*suite).adapters},
		{"survey/routes", (*suite).routes},
		{"survey/listeners", (*suite).listeners},
		{"survey/hns", (*suite).hnsNetworks},
		{"survey/events", (*suite).events},
		{"survey/images", (*suite).images},
		{"cancelled", (*suite).cancelled},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			s := &suite{T: t, Fixture: open(t), ctx: ctx}
			facts, err := s.Host.Facts(ctx)
			s.must(err)
			s.os = facts.OS
			test.f(s)
		})
	}
}

func (s *suite) facts() {
	f, err := s.Host.Facts(s.ctx)
	s.must(err)
	if f.OS != "windows" && f.OS != "linux" {
		s.Errorf("OS %q", f.OS)
	}
	if f.Arch == "" || f.Hostname == "" || f.Build == "" || f.DataDir == "" {
		s.Errorf("a fact is missing: %+v", f)
	}
	if f.BootTime.IsZero() || f.BootTime.After(time.Now().Add(time.Minute)) {
		s.Errorf("boot time %s", f.BootTime)
	}
	if (f.ManagementIP == "") != (f.Subnet == "") {
		s.Errorf("address %q with subnet %q", f.ManagementIP, f.Subnet)
	}
	again, err := s.Host.Facts(s.ctx)
	s.must(err)
	s.equal("facts asked again", again, f)
}
