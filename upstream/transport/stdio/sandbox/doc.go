// Package sandbox runs a program in a box that the Linux kernel holds. Landlock holds files, seccomp
// the network and dangerous system calls, control groups and resource limits the use of the machine.
//
// It owns what a box is, its configuration, and the launcher: the gateway's own executable, which
// restricts itself and then becomes the program. It leaves the process and its pipes to package
// stdio. It starts no goroutine. Whatever the kernel lacks is an error, never a weaker box.
//
//	config.go   what a configuration says
//	box.go      the gateway's side: a directory, a control group, the command of the launcher
//	launch.go   the launcher's side, in the order in which it gives things up
//	files.go    Landlock
//	calls.go    seccomp
//	group.go    control groups
package sandbox
