package main

import "nodejoin/steps/supervise"

// supervised runs a program as a service.
func supervised(args []string) int { return supervise.Main(args) }
