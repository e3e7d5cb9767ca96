module github.com/pgpilot/pgpilot/services/classifier

go 1.26.0

require (
	github.com/pganalyze/pg_query_go/v6 v6.2.5
	github.com/pgpilot/pgpilot/libs v0.0.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/dchest/siphash v1.2.3 // indirect
	github.com/hashicorp/golang-lru/v2 v2.0.7 // indirect
)

replace github.com/pgpilot/pgpilot/libs => ../../libs
