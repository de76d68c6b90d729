package selftest

// Questions that only Windows itself can be asked, by calls that package host does not have.
const (
	askJunction  = "a junction that a user put in place of a folder is recognised"
	askForeign   = "some services of others cannot be read"
	askEvent     = "the event log takes an entry"
	askPipe      = "output goes through a pipe of 4096 bytes"
	askPrivilege = "a network logon needs SeRemoteShutdownPrivilege for a reboot, another logon does not"

	askOverlay   = "an overlay network is made on a loopback adapter"
	askAnswers   = "HNS answers while a switch is made"
	askVSID      = "a query reports the VSID"
	askAddress   = "an overlay network reports its management address"
	askSwitched  = "the adapter of a switch is vEthernet (NAME)"
	askRefused   = "a network that names a vEthernet adapter is refused with 0x803b0006"
	askMadeAgain = "a network is deleted, and made again at once"
)

var loopbackQuestions = []struct {
	name  string
	claim int
}{{askOverlay, 1}, {askAnswers, 5}, {askVSID, 6}, {askAddress, 19}, {askSwitched, 1}, {askRefused, 1},
	{askMadeAgain, 11}}
