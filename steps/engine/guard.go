package engine

import (
	"fmt"
	"runtime/debug"
	"sync"

	"nodejoin/steps"
)

// guarded runs f for one host. A panic ends the work on this host alone, as its error.
func guarded(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = crashed(p)
		}
	}()
	f()
	return nil
}

func crashed(p any) *steps.Error {
	if e, ok := p.(*steps.Error); ok {
		return e
	}
	return &steps.Error{Code: steps.CodeFailed, Summary: "nodejoin failed over this host",
		Detail: fmt.Sprintf("%v\n%s", p, debug.Stack()),
		Remedy: "this is a bug of nodejoin: please report it with this text. Other hosts are not affected"}
}

// together runs all of fs at the same time. A panic of one is a panic of the caller, once all have ended.
func together(fs ...func()) {
	var wait sync.WaitGroup
	errs := make([]error, len(fs))
	for i, f := range fs {
		wait.Go(func() { errs[i] = guarded(f) })
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			panic(err)
		}
	}
}
