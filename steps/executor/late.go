package executor

// lateRecord is a save of the record that is due before the next call that changes the machine: the end of a step and
// the claims of the next one are saved together. A run that dies between the two has changed nothing in between, so it
// looks as if it had died before the first. It is not safe for concurrent use.
type lateRecord struct {
	due func() error // nil = the record is saved
}

// around makes a call that changes the machine, after the save that is due. saves: the call itself writes the record.
func (l *lateRecord) around(saves bool, call func() error) error {
	if !saves {
		if err := l.save(); err != nil {
			return err
		}
	}
	err := call()
	if saves && err == nil {
		l.due = nil
	}
	return err
}

// save saves the record if that is due.
func (l *lateRecord) save() error {
	if l.due == nil {
		return nil
	}
	return l.due()
}
