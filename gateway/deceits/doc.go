// Package deceits finds what may deceive people or models in the tools that clients see: texts that
// people cannot see, and names that look like others.
//
// It owns where it is looked for, and that each deceit is recorded once while the gateway serves. It
// leaves what is hidden and what looks alike to internal/pin. Run of a Lookout belongs to its caller;
// the package starts no goroutines.
package deceits
