// Package source is the floor of bytes of the language: it finds the files of a plan, reads and
// parses them within bounds, and says where things are in them.
package source
