// Package loopback adds loopback adapters to Windows, on which HNS makes networks without touching a real adapter.
package loopback
