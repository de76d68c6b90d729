// Package linux is a Linux machine through its own interfaces: files, /proc, signals
// and, where systemd is process 1, its D-Bus interface.
//
// Services are units of systemd, in /etc/systemd/system. Elsewhere they are kept by a
// small service manager of nodejoin's own, below its data folder. That manager has no
// process of its own. What it knows is on disk, and every call looks at the processes
// themselves. Hence nothing restarts a service that failed or starts it at boot: start
// type and recovery are kept and restored, and a service that is not running is
// started by the next apply.
//
// Everything but this comment is built for Linux only.
package linux
