// Package settings is the configuration API for operators: state, rules, text without secrets, history,
// drafts and saving.
//
// It owns these answers, and that nothing secret is in them. It leaves texts to gateway/configtext, the
// configuration itself to gateway/config, applying one to gateway, and who may ask to gateway/admin. It
// starts no goroutines.
package settings
