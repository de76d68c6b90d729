package plan

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"nodejoin/plan/eval"
	"nodejoin/plan/lock"
	"nodejoin/plan/source"
)

// readLock reads the lock of a plan, if it has one. files are those of the plan.
func (p *Plan) readLock(files []string, d *eval.Diags) {
	folder := filepath.Dir(files[0])
	p.lockAt = filepath.Join(folder, lock.FileName)
	if all, err := source.Find(folder); p.alone && err == nil && len(all) > 1 { // the others are other plans
		p.lockAt = strings.TrimSuffix(files[0], Suffix) + lock.Suffix
	}
	src, err := p.files.Read(p.lockAt)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		p.broken = true
		d.Fail(hcl.Range{}, "unreadable lock", "%s", err)
		return
	}
	var f *hcl.File
	var list hcl.Diagnostics
	if g := source.NotText(src, p.lockAt); g != nil {
		list = hcl.Diagnostics{g}
	} else {
		f, list = source.ParseFile(src, p.lockAt)
	}
	if f != nil {
		p.files.Parser.AddFile(p.lockAt, f)
	}
	if list.HasErrors() {
		list = lock.Damaged(list)
	} else {
		p.locked, list = lock.Decode(f.Body)
	}
	p.broken = p.broken || list.HasErrors()
	d.Extend(list)
}
