package main

import (
	"errors"
	"strconv"

	"nodejoin/cmd/nodejoin/internal/atonce"
	"nodejoin/cmd/nodejoin/internal/flagvalue"
)

// parallelFlag is how many hosts are worked on at once, or auto.
type parallelFlag struct {
	n      int            // 0 = auto
	choice *atonce.Choice // of a run with auto
}

func (p *parallelFlag) Type() string { return "number" }

func (p *parallelFlag) String() string {
	if p.n == 0 {
		return "auto"
	}
	return strconv.Itoa(p.n)
}

func (p *parallelFlag) Set(s string) error {
	p.n = 0
	if s == "auto" {
		return nil
	}
	if (*flagvalue.Positive)(&p.n).Set(s) != nil {
		return errors.New("it must be auto, or a whole number of at least 1")
	}
	return nil
}

// first is how many hosts are worked on at once in the beginning.
func (p *parallelFlag) first() int {
	if p.n == 0 {
		return atonce.First
	}
	return p.n
}

// more is engine.Options.More.
func (p *parallelFlag) more() func() bool {
	if p.n != 0 {
		return nil
	}
	if p.choice == nil {
		p.choice = atonce.New()
	}
	return p.choice.More
}
