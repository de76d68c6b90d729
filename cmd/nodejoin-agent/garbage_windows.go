package main

// collectLater changes nothing: on Windows a run takes as long as what it starts and waits for.
func collectLater() {}
