package main

import "nodejoin/steps/heal"

// booted brings the node of this machine back to work after a boot.
func booted(args []string) int { return heal.Main(args, native) }
