// Package config is the one JSON file that all services share: its keys, their
// defaults, and precise refusals. Each service reads its part; keys of the older
// single-binary pgpilot mean what they meant.
//
// A file is checked whole before anything starts: an unknown key, a wrong type
// or an impossible value is refused with the key's path and, for a misspelt key,
// the nearest valid name.
package config
