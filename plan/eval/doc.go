// Package eval is the floor of values of the language: a Scope evaluates expressions, a Spec says
// what a block may hold, and a Section is one block decoded by its Spec. Diagnostics are collected
// here. It knows no block by name.
package eval
