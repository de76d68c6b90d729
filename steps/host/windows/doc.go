// Package windows is a Windows machine through its native API: the service
// control manager, the registry, the security descriptors of files, the firewall's
// COM objects and the Host Compute Network service. It starts no program and
// parses no printed text, so that it behaves the same on every language of Windows.
//
// Everything but this comment is built for Windows only.
package windows
