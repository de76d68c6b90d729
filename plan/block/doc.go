// Package block decodes the blocks of the language, one file per block, into values with their
// places in the plan, and checks each block by itself. Rules between blocks are in package
// rule.
package block
