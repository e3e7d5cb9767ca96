module github.com/pgpilot/pgpilot/services/lagpoller

go 1.26
