// Package block is the floor of blocks of the language: one file per block decodes it into values
// with the places where they stand in the plan, and judges it by itself. What two blocks say to each
// other is judged by package rule.
package block
