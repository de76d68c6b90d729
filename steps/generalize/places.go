package generalize

import (
	"context"
	"slices"
	"strings"

	"nodejoin/steps/executor"
	"nodejoin/steps/host"
)

// place is where machines have what no other may have.
type place struct {
	os, dir string
	names   []string // of entries of dir; with * at their end they begin so
	what    string
}

// places are what the first boot of a copy makes again: sshd and cloud-init the host keys, systemd the machine id,
// cloud-init what it knows of the machine (as "cloud-init clean" has it), DHCP the leases, containerd its id
// (containerd plugins/services/introspection), and the logs that have the name, the addresses and the id of the
// machine in most entries (as virt-sysprep has them; those of rsyslog as Debian and Red Hat name them). Without the
// first, journald writes to memory, and not again to files in /var (systemd src/journal/journald-server.c).
var places = []place{
	{"windows", `C:\ProgramData\ssh`, []string{"ssh_host_*"}, hostKey},
	{"linux", "/etc/ssh", []string{"ssh_host_*"}, hostKey},
	{"linux", "/var/lib/cloud", []string{"data", "instance", "instances", "sem"}, ofCloudInit},
	{"linux", "/var/log", []string{"cloud-init.log", "cloud-init-output.log"}, ofCloudInit},
	{"linux", "/run/systemd/journal", []string{"flushed"}, logs},
	{"linux", "/var/log/journal", []string{"*"}, logs},
	{"linux", "/var/log", []string{"wtmp*", "btmp*", "lastlog*", "syslog*", "messages*", "auth.log*", "secure*",
		"daemon.log*", "kern.log*", "user.log*", "cron*", "debug*", "boot.log*", "dmesg*"}, logs},
	{"linux", "/var/lib/dhcp", []string{"*"}, lease},
	{"linux", "/var/lib/NetworkManager", []string{"secret_key", "internal-*", "dhclient-*"}, lease},
	{"linux", "/var/lib/systemd", []string{"random-seed", "credential.secret"}, seed},
	{"linux", "/var/lib/dbus", []string{"machine-id"}, theID},
	{"linux", "/etc", []string{"machine-id"}, theID},
	{"linux", "/var/lib/containerd/io.containerd.grpc.v1.introspection", []string{"uuid"}, theID},
	{"windows", `C:\ProgramData\containerd\root\io.containerd.grpc.v1.introspection`, []string{"uuid"}, theID},
}

// going is what of the machine goes.
func (s *search) going(ctx context.Context) (out []Found, err error) {
	for _, p := range places {
		if p.os != s.e.Facts.OS {
			continue
		}
		list, err := s.list(ctx, p.dir)
		if err != nil {
			return nil, err
		}
		for _, in := range list {
			path := host.Join(p.os, p.dir, in.Name)
			link := in.Elsewhere && p.what == theID // to the one in /etc
			if p.has(in.Name) && !link && (path != machineID || in.Size > 0) {
				out = append(out, Found{path, p.what})
			}
		}
	}
	notes := executor.NotesPath(s.e.Facts)
	there, err := host.Exists(ctx, s.r, notes)
	if there {
		out = append(out, Found{notes, ofRun})
	}
	return out, err
}

func (p place) has(name string) bool {
	return slices.ContainsFunc(p.names, func(n string) bool {
		begin, any := strings.CutSuffix(n, "*")
		return name == n || any && strings.HasPrefix(name, begin)
	})
}
