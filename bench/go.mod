module github.com/pgpilot/pgpilot/bench

go 1.26
