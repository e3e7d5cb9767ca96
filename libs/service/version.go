package service

import "runtime/debug"

// version is set when a release is built:
//
//	go build -ldflags "-X github.com/pgpilot/pgpilot/libs/service.version=v1.2.3"
var version = "dev"

// Version gives the version of this build: the release's, or "dev" with the
// commit it was built from where the Go tool recorded it.
func Version() string {
	if version != "dev" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	var commit, modified string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = "-" + s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				modified = "-modified"
			}
		}
	}
	if commit == "" {
		return version
	}
	return version + commit + modified
}
