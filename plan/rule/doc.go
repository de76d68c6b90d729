// Package rule is the floor of rules of the language: each is a function of the decoded plan, and
// all stand in the table of rules.go in the order in which they look. The corpus (plan/testdata) has
// a case for each diagnostic.
package rule
