module github.com/pgpilot/pgpilot/services/listener

go 1.26
