package generalize

// Request says what the machine was prepared with.
type Request struct {
	Node  string   `json:"node"`
	Steps []string `json:"steps"` // ids of the steps that prepared it
	// Artifacts are the files that are verified by their digests: nothing of the machine is in them.
	Artifacts []string `json:"artifacts,omitempty"`
	// Addresses of the machine as the plan has them; those that the machine has come on top.
	Addresses []string `json:"addresses,omitempty"`
	Secrets   []string `json:"secrets,omitempty"` // of the plan
	// Check: nothing is removed, only what would keep the machine from being an image is looked for.
	Check bool `json:"check,omitempty"`
}

// Reply is what became of the machine. If something is there that is not to be removed, nothing was removed.
type Reply struct {
	Removed []Found `json:"removed"`
	Left    []Found `json:"left"`
	Files   int     `json:"files"` // that were searched
}

// Found is something of this machine.
type Found struct {
	Path string `json:"path"`
	What string `json:"what"` // one of Whats
}

// What is found, in words.
const (
	hostKey     = "a host key of SSH"
	theID       = "an id of the machine"
	ofCloudInit = "what cloud-init knows of the machine"
	lease       = "a lease of an address"
	seed        = "a seed or a key of the machine"
	ofRun       = "notes about runs"
	logs        = "logs of the machine"
	name        = "the name of the node"
	address     = "an address of the machine"
	secret      = "a secret of the plan"
	privateKey  = "a private key"
	certificate = "a certificate"
	encoded     = "a private key or a certificate"
	token       = "a token"
)

// Whats are all that Found.What can be.
var Whats = []string{hostKey, theID, ofCloudInit, lease, seed, ofRun, logs, name, address, secret, privateKey,
	certificate, encoded, token}

// machineID is empty in an image: systemd then makes one at the first boot (systemd-machine-id-setup(1)).
const machineID = "/etc/machine-id"

// Windows Setup makes this value, and other programs tell machines apart by it.
const (
	cryptography = `HKLM\SOFTWARE\Microsoft\Cryptography`
	machineGUID  = "MachineGuid"
)
