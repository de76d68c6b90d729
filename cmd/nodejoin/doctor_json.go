package main

import "nodejoin/steps/engine"

// doctorJSON writes a diagnosis as one JSON value.
type doctorJSON struct{ *app }

func (doctorJSON) before(diagnosed) {}

func (doctorJSON) nothingToFix() {}

func (doctorJSON) plan(*engine.Report) {}

func (j doctorJSON) result(r diagnosed) error {
	return j.printJSON(r.data())
}
