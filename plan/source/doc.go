// Package source finds the files of a plan, reads and parses them within bounds, and gives
// places in them.
package source
