// Package settings is what operators see of the configuration and do to it: its state, its rules, its
// text without secrets, what holds of it, its history, what a draft would change, and saving one.
//
// It owns these answers, and that nothing secret is in them. It leaves texts to gateway/configtext, the
// configuration itself to gateway/config, applying one to gateway, and who may ask to gateway/admin. It
// starts no goroutines.
package settings
