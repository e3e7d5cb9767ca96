module github.com/pgpilot/pgpilot/services/classifier

go 1.26
