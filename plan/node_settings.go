package plan

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"nodejoin/plan/block"
	"nodejoin/plan/compat"
	"nodejoin/plan/recipe"
	"nodejoin/steps/kinds"
	"nodejoin/steps/preflight"
)

// machineSettings turns what holds for a machine into what its recipe is told.
func (c *compiler) machineSettings(m *block.Machine, all block.Settings) {
	before := c.Errors()
	w := &settingWriter{c: c, m: m, all: all}
	w.opened = w.ownPorts()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		b := all[key]
		switch {
		case key == "proxy":
			w.proxy(b)
		case key == "firewall":
			w.firewall(b)
		case key == "host":
			w.host(b)
		case key == "services":
			w.services(b)
		case key == "csi_proxy":
			w.csiProxy(b)
		case key == "windows_exporter":
			w.exporter(b)
		default:
			w.file(key[len("file "):], b)
		}
	}
	m.RecipeSettings = w.out
	m.SettingAt = w.at
	m.Bad = m.Bad || c.Errors() > before
}

// settingWriter collects the settings of one machine.
type settingWriter struct {
	c   *compiler
	m   *block.Machine
	all block.Settings
	out recipe.Settings
	// block is the host block that is being written.
	block block.SettingBlock
	at    map[string]hcl.Range // of the steps
	// opened are the ports that rules open so far.
	opened []openPort
}

// add adds steps that an argument asks for.
func (w *settingWriter) add(at hcl.Range, list ...recipe.Setting) {
	for _, s := range list {
		s.Source = w.c.Files.Place(at)
		w.out.Steps = append(w.out.Steps, s)
		w.note(s.ID, at)
	}
}

func (w *settingWriter) note(id string, at hcl.Range) {
	if w.at == nil {
		w.at = map[string]hcl.Range{}
	}
	w.at[id] = at
}

// windowsOnly reports a block of Windows on another system; true when there is one.
func (w *settingWriter) windowsOnly(what string, at hcl.Range) bool {
	return w.ofWindows("A "+what+" block", at)
}

// ofWindows reports what, as it begins a sentence, on another system than Windows.
func (w *settingWriter) ofWindows(what string, at hcl.Range) bool {
	if w.m.OS == "windows" || w.m.OS == "" {
		return false
	}
	w.c.FailOn(w.m.Name, at, "setting for Windows",
		"%s says what Windows has, and node %q runs %s. Remove it, or give it to a profile of Windows nodes only.", what,
		w.m.Name, w.m.OS)
	return true
}

func (w *settingWriter) file(name string, b block.SettingBlock) {
	path := b.Text("path")
	if path == "" || w.m.OS == "" {
		return // reported
	}
	if why := block.BadPath(w.m.OS, path); why != "" {
		w.c.Fail(b.Args["path"].At, "invalid path", "%q cannot be a path on %s: %s.", path, w.m.OS, why)
		return
	}
	w.add(b.At, recipe.ManagedFile(name, kinds.File{Path: path, Content: b.Text("content"),
		Access: access(b.Text("access")), Sensitive: b.Args["content"].Secret}))
}

// proxy is judged where profile and node are put together: each may give a part.
func (w *settingWriter) proxy(b block.SettingBlock) {
	p := &recipe.Proxy{HTTP: b.Text("http"), HTTPS: b.Text("https"), NoProxy: b.Texts("no_proxy"),
		Source: w.c.Files.Place(b.At)}
	if p.HTTP == "" && p.HTTPS == "" {
		if _, http := b.Args["http"]; !http {
			w.c.FailOn(w.m.Name, b.At, "missing argument",
				"The proxy block of node %q gives neither \"http\" nor \"https\", here or in its profile, so it has no effect.",
				w.m.Name)
		}
		return
	}
	for _, name := range []string{"http", "https"} {
		u, err := url.Parse(b.Text(name))
		p.Sensitive = p.Sensitive || b.Args[name].Secret || err == nil && u.User != nil
		if address, ok := preflight.ProxyAddress(b.Text(name)); ok && !b.Args[name].Secret && !slices.Contains(p.Addresses,
			address) {
			p.Addresses = append(p.Addresses, address)
		}
	}
	w.out.Proxy = p
	for _, id := range []string{"http_proxy", "https_proxy", "no_proxy", "http_proxy_lower", "https_proxy_lower",
		"no_proxy_lower"} {
		w.note(id, b.At)
	}
}

func (w *settingWriter) services(b block.SettingBlock) {
	if w.windowsOnly("services", b.At) {
		return
	}
	if len(w.c.Written["cluster"]) == 0 {
		w.c.FailOn(w.m.Name, b.At, "block without effect",
			"Node %q joins no cluster, so it has no services of nodejoin. Remove it.", w.m.Name)
		return
	}
	duration := func(name string) time.Duration {
		d, err := time.ParseDuration(b.Text(name))
		if err != nil {
			return 0 // not given, or reported
		}
		return d
	}
	s := recipe.Services{NSSM: b.Text("manager") == "nssm", Priority: b.Text("priority"),
		RestartDelay: duration("restart_delay"), RestartReset: duration("restart_reset")}
	if _, given := b.Args["log_age"]; given {
		s.LogAge = b.Text("log_age")
	}
	if g, ok := b.Args["log_size"]; ok {
		s.LogSize, _ = g.Value.AsBigFloat().Int64()
	}
	if _, known := recipe.Priorities[s.Priority]; s.Priority != "" && !known {
		return // reported
	}
	w.logEffect(b, s.NSSM)
	if g, ok := b.Args["manager"]; ok && s.NSSM && w.c.Cluster != nil && w.c.Cluster.Base.Join.Kind == "kubeadm" {
		w.c.FailOn(w.m.Name, g.At, "nssm not possible", "Node %q joins by kubeadm, which starts the kubelet as the "+
			"service that it is. Leave the manager \"native\", or join in another way.", w.m.Name)
	}
	if g, ok := b.Args["priority"]; ok && slices.ContainsFunc(w.m.Components["kubelet"].Args,
		func(a string) bool { return block.FlagName(a) == recipe.PriorityFlag }) {
		w.c.FailOn(w.m.Name, g.At, "duplicate flag",
			"Node %q has --%s in the extra_args of its kubelet, too. Remove one of the two.", w.m.Name, recipe.PriorityFlag)
	}
	w.out.Services = s
}

// logEffect reports what of the logs can have no effect in a version.
func (w *settingWriter) logEffect(b block.SettingBlock, nssm bool) {
	if w.c.Cluster == nil {
		return
	}
	k, err := compat.Kubelet(w.c.Cluster.Version)
	if err != nil {
		return
	}
	for _, name := range []string{"log_size", "log_age"} {
		g, ok := b.Args[name]
		why := ""
		switch {
		case !ok:
			continue
		case nssm && name == "log_age":
			why = "nssm removes no log that it has rotated"
		case nssm:
			continue
		case !k.LogRunner && name == "log_age":
			why = "the programs of Kubernetes " + w.c.Cluster.Version + " keep one file of bounded size"
		case k.LogRunner && !k.LogRunnerRotationFlags:
			why = "kube-log-runner of Kubernetes " + w.c.Cluster.Version + " keeps one file and has no bound for it (1.34 has)"
		default:
			continue
		}
		remedy := "Remove it."
		if name == "log_size" {
			remedy = "Remove it, or let nssm run the services."
		}
		w.c.FailOn(w.m.Name, g.At, "argument without effect", "On node %q the argument %q has no effect: %s. %s", w.m.Name,
			name, why, remedy)
	}
}

// addon reports whether a block asks for its program on this machine, and reports what
// it lacks.
func (w *settingWriter) addon(name string, b block.SettingBlock) bool {
	if w.windowsOnly(name, b.At) {
		return false
	}
	if g, ok := b.Args["install"]; ok && g.Value.False() {
		return false
	}
	switch {
	case len(w.c.Written["cluster"]) == 0:
		w.c.FailOn(w.m.Name, b.At, "block without effect", "Node %q joins no cluster, so it gets no %s. Remove it.",
			w.m.Name, name)
		return false
	case b.Text("version") == "" && b.Args["version"].Value == cty.NilVal &&
		!w.c.failedBefore("version of "+w.c.Files.Place(b.At)):
		w.c.FailOn(w.m.Name, b.At, "missing argument", "The %s block of node %q has no \"version\", here or in its profile.",
			name, w.m.Name)
		return false
	}
	return b.Text("version") != ""
}

func (w *settingWriter) csiProxy(b block.SettingBlock) {
	if w.addon("csi_proxy", b) {
		w.out.CSIProxy = &recipe.CSIProxy{Version: strings.TrimPrefix(b.Text("version"), "v"),
			WorkingDirs: b.Texts("working_dirs"), Source: w.c.Files.Place(b.At)}
	}
}

func (w *settingWriter) exporter(b block.SettingBlock) {
	if !w.addon("windows_exporter", b) {
		return
	}
	x := &recipe.Exporter{Version: strings.TrimPrefix(b.Text("version"), "v"), Port: recipe.ExporterPort,
		Collectors: b.Texts("collectors"), Textfile: b.Text("textfile_dir"), Source: w.c.Files.Place(b.At)}
	at := b.At
	if g, ok := b.Args["port"]; ok {
		n, _ := g.Value.AsBigFloat().Int64()
		if n < 1 || n > 65535 {
			return // reported
		}
		x.Port, at = uint16(n), g.At
	}
	for _, p := range w.boundPorts() {
		if p.protocol == "tcp" && p.port == x.Port {
			w.c.FailOn(w.m.Name, at, "ports of the node", "%s of node %q has port %d. Give windows_exporter another.",
				p.program, w.m.Name, p.port)
			return
		}
	}
	if g, ok := b.Args["collectors"]; ok && x.Textfile != "" && slices.Contains(x.Collectors, "textfile") {
		w.c.FailOn(w.m.Name, g.At, "argument without effect",
			"Node %q has a \"textfile_dir\", with which nodejoin enables the collector \"textfile\". Leave it out here.",
			w.m.Name)
		return
	}
	w.out.Exporter = x
	w.note("exporter_textfile_dir", b.At)
	g, open := b.Args["remote"]
	switch {
	case !open:
	case w.out.Firewall.Off:
		w.c.FailOn(w.m.Name, g.At, "argument without effect", "With manage = false in its firewall block node %q gets no "+
			"rules of nodejoin, so the argument \"remote\" has no effect. Remove one of the two.", w.m.Name)
	default:
		w.opened = w.open(&w.out.Firewall, w.opened, "windows_exporter", "tcp", strconv.Itoa(int(x.Port)), b.Texts("remote"),
			g.At)
	}
}
