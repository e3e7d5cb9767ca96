package busserver

import (
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/pgpilot/pgpilot/libs/bus"
)

// requests lists what an operator may ask. Several services may answer to $SRV
// (the NATS service framework), one to a snapshot.
var requests = []struct {
	subject string
	kind    server.ServiceRespType
}{
	{bus.SubjectLagSnapshot, server.Singleton},
	{bus.SubjectTopologySnapshot, server.Singleton},
	{"$SRV.>", server.Streamed},
}

// admit sets up who may do what: the services' account, entered with their key,
// and the operators' account, entered without any. Operators' requests cross
// over by service import, where the server itself replaces the reply subject:
// a request that names, say, the topology as its reply subject cannot make
// a service publish there. Without open, only services enter.
func admit(opts *server.Options, servicesKey string, open bool) error {
	services, operators := server.NewAccount("pgpilot"), server.NewAccount("operators")
	const news = "pgpilot.>"
	if err := services.AddStreamExport(news, nil); err != nil {
		return err
	}
	if err := operators.AddStreamImport(services, news, ""); err != nil {
		return err
	}
	publish := make([]string, 0, len(requests))
	for _, r := range requests {
		if err := services.AddServiceExportWithResponse(r.subject, r.kind, nil); err != nil {
			return err
		}
		if err := operators.AddServiceImport(services, r.subject, r.subject); err != nil {
			return err
		}
		publish = append(publish, r.subject)
	}
	opts.Accounts = []*server.Account{services, operators}
	// Whoever shows no credential is given this identity, whose secret nobody keeps.
	anyone, err := nkeys.CreateUser()
	if err != nil {
		return err
	}
	anyoneKey, err := anyone.PublicKey()
	if err != nil {
		return err
	}
	if open {
		opts.NoAuthUser = anyoneKey
	}
	opts.Nkeys = []*server.NkeyUser{{Nkey: servicesKey, Account: services}, {
		Nkey:    anyoneKey,
		Account: operators,
		Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: publish},
			// No publishing to _INBOX: answers come from services, and an operator
			// shall not be able to answer another operator's request.
			Subscribe: &server.SubjectPermission{Allow: []string{news, "_INBOX.>"}},
		},
	}}
	return nil
}
