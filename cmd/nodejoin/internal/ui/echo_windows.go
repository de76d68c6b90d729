package ui

import "os"

// stopEcho has nothing to do: a console of Windows shows typed keys only to a program that reads them.
func stopEcho(*os.File) (restore func()) { return func() {} }
