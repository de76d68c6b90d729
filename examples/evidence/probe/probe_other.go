//go:build !windows

package main

import "errors"

func machine() (evidence, error) {
	return evidence{}, errors.New("only a Windows machine can be asked")
}

func probes() map[string]probe { return nil }
