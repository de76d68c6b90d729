// Package rule has the rules of the language: each is a function of the decoded plan and a row
// of the table in rules.go, in the order in which they run. The corpus (plan/testdata) has a
// case for each diagnostic.
package rule
