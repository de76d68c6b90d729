package main

import "nodejoin/steps/node"

// noded keeps the node of this machine in order.
func noded(args []string) int { return node.Main(args, native) }
