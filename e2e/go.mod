module github.com/pgpilot/pgpilot/e2e

go 1.26
