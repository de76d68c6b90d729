// Package host is the boundary between nodejoin and one machine.
//
// Reader has no method that can change the machine, so code that is handed a
// Reader can be run as a dry run by type, not by promise. Host adds the calls
// that change it. Implementations: host/windows (native API), host/linux and
// host/sandbox (a machine in a folder); hosttest holds the suite they all pass.
//
// Paths are absolute and in the machine's own form (`C:\k\kubelet.exe`,
// `/srv/k/kubelet`). Every method may block and obeys its context.
package host

// Reader observes a machine.
//
// "Is not there" is always an error that matches fs.ErrNotExist; any other error means that the question could
// not be answered and must never be mistaken for absence.
type Reader interface {
	SystemReader
	FilesReader
	ServicesReader
	RegistryReader
	NetworkReader
	KernelReader
}

// Host observes and changes a machine. Each method below is one mutating call:
// it either happens or does not, and an interrupted one is finished by calling
// it again.
type Host interface {
	Reader

	System
	Files
	Services
	Registry
	Network
	Kernel
}
