// Package configtext shows operators the text of the configuration, and changes it.
//
// It owns the secrets in the text and their mask, the text with defaults filled in, the differences
// between two texts, and how a changed text gets into its file. It leaves what a configuration may
// say, and what a reload does with it, to gateway, and who may see or change it to gateway/admin.
// It starts no goroutines.
package configtext
