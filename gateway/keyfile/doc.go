// Package keyfile reads and changes files of API keys (auth.keys.file).
//
// It owns the text of such a file. It leaves what an entry means to auth/apikey, and how a file is
// replaced in one step to gateway/configtext. It starts no goroutines.
package keyfile
