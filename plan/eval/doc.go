// Package eval evaluates the language: a Scope evaluates expressions, a Spec describes a block,
// and a Section is one block decoded by its Spec. Diagnostics are collected here. It knows no
// block by name.
package eval
