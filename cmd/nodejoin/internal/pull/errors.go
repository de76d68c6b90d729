package pull

// fetchedError is why something could not be fetched: what there is now is not known.
type fetchedError struct{ err error }

func (e *fetchedError) Error() string { return e.err.Error() }
func (e *fetchedError) Unwrap() error { return e.err }

// ownError is trouble of this machine, which says nothing about the release.
type ownError struct{ err error }

func (e *ownError) Error() string { return e.err.Error() }
func (e *ownError) Unwrap() error { return e.err }
