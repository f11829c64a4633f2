// Package jsonstring finds the ends of JSON strings, and says what is wrong with one.
//
// Most of what the gateway passes on is the text of one string, often with an escape in every eighth
// byte, so this is where large messages take their time. It starts no goroutines.
package jsonstring
