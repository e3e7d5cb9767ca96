module github.com/pgpilot/pgpilot/services/router

go 1.26
