package executor

// lateRecord is a save of the record that is due before the next call that changes the machine: the end of a step and
// the claims of the next one are saved together. A run that dies between the two has changed nothing in between, so it
// looks as if it had died before the first. The ends of steps whose claims were made ahead wait for the last of them.
// It is not safe for concurrent use.
type lateRecord struct {
	due  func() error // nil = the record is saved
	hold bool         // what is about to change is claimed already
}

// before is called ahead of each call that changes the machine. saves: the call writes the record; where it fails,
// so does what asked for it, and nothing is due.
func (l *lateRecord) before(saves bool) error {
	if saves {
		l.due = nil
		return nil
	}
	if l.hold {
		return nil
	}
	return l.save()
}

// save saves the record if that is due.
func (l *lateRecord) save() error {
	if l.due == nil {
		return nil
	}
	return l.due()
}
