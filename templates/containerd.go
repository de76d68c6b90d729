package templates

import "fmt"

// Containerd is containerd's config.toml.
type Containerd struct {
	// Schema is the `version` of the file: 2 for containerd 1.x, 3 for 2.0 to 2.2, 4 since 2.3.
	Schema int
	// BinDirs: the CNI section takes a list of folders (containerd 2.1 and later).
	BinDirs bool
	Root    string // persistent data
	State   string // data of this boot
	Address string // pipe or socket of the gRPC API
	Pause   string // pause image
	CNIBin  string // folder of CNI plugins
	CNIConf string // folder of CNI configurations
	// ConfigPath is the folder of hosts.toml files, read since containerd 1.5; "" = none.
	ConfigPath string
}

// Render returns the file's text. Keys: containerd docs/cri/config.md.
func (c Containerd) Render() (string, error) {
	switch c.Schema {
	case 2:
		return render("containerd.v2.toml", c)
	case 3, 4: // schema 4 has the addresses elsewhere
		return render("containerd.v3.toml", c)
	}
	return "", fmt.Errorf("unknown containerd configuration schema %d; use 2, 3 or 4", c.Schema)
}
