package config

import (
	"fmt"
	"strings"
)

// Bus is where services tell each other the news: NATS servers embedded in the
// lagpollers, this host's or others', or a NATS that is there anyway.
type Bus struct {
	// Listen is the TCP address of an embedded server, for operators (subscribe only)
	// and for services elsewhere. Empty: none.
	Listen string `json:"listen" reload:"restart"`
	// URL leads to a NATS elsewhere, as nats://host:port or tls://host:port, several
	// separated by commas. Then nobody of this host embeds one. Empty: the run
	// directory's.
	URL string `json:"url" reload:"restart"`
	// SecretFile has on its first line what makes a process one of pgpilot's services
	// on a bus of its lagpollers. Empty: a secret of the run directory.
	SecretFile string `json:"secret_file" reload:"restart"`
	// User logs in at URL with the password. Without a user, the password is a token.
	User     string `json:"user" reload:"restart"`
	Password string `json:"password" reload:"restart"`
	// PasswordFile names a file whose first line is the password, PasswordEnv an
	// environment variable that holds it.
	PasswordFile string `json:"password_file" reload:"restart"`
	PasswordEnv  string `json:"password_env" reload:"restart"`
	// CredsFile has a user's JWT and NKey seed, NKeyFile an NKey seed alone.
	CredsFile string `json:"creds_file" reload:"restart"`
	NKeyFile  string `json:"nkey_file" reload:"restart"`
	// Anonymous says that URL asks for no credential, and lets anybody publish.
	Anonymous bool `json:"anonymous" reload:"restart"`
	// CAFile has the certificates that URL's servers must be signed by. Empty: the
	// system's.
	CAFile string `json:"ca_file" reload:"restart"`
	// Cluster joins the embedded servers of several hosts.
	Cluster BusCluster `json:"cluster"`
}

// BusCluster is how the servers embedded in lagpollers of several hosts find each
// other. Those of one run directory do without.
type BusCluster struct {
	// Listen is the TCP address for the servers of other hosts. Empty: none.
	Listen string `json:"listen" reload:"restart"`
	// Routes are the Listen addresses of other hosts, each host:port.
	Routes []string `json:"routes" reload:"restart"`
}

// login is one way to sign in at bus.url.
type login struct {
	path  string
	given bool
}

func (b *Bus) logins() []login {
	return []login{
		{"bus.secret_file", b.SecretFile != ""},
		{"bus.user", b.User != ""},
		{"bus.password", b.User == "" && (b.Password != "" || b.PasswordFile != "" || b.PasswordEnv != "")},
		{"bus.creds_file", b.CredsFile != ""},
		{"bus.nkey_file", b.NKeyFile != ""},
		{"bus.anonymous", b.Anonymous},
	}
}

func (p *problems) validateBus(b *Bus) {
	p.listenAddress("bus.listen", b.Listen)
	p.validateCluster(b)
	given := 0
	for _, l := range b.logins() {
		if !l.given {
			continue
		}
		if given++; given > 1 {
			p.invalid(l.path, "there is another way to sign in already: give one of secret_file, user, password, creds_file, nkey_file and anonymous")
		}
		if b.URL == "" && l.path != "bus.secret_file" {
			p.invalid(l.path, "it is for a NATS elsewhere: give bus.url too, or leave it out")
		}
	}
	if b.User != "" || b.Password != "" || b.PasswordFile != "" || b.PasswordEnv != "" {
		p.validateSources("bus", b.Password, b.PasswordFile, b.PasswordEnv)
	}
	if b.URL == "" {
		if b.CAFile != "" {
			p.invalid("bus.ca_file", "it is for a NATS elsewhere: give bus.url too, or leave it out")
		}
		return
	}
	p.validateBusURL(b)
	if given == 0 {
		p.invalid("bus.url", "the NATS there does not know this host: give bus.secret_file if it is another lagpoller's, or bus.user, bus.password, bus.creds_file, bus.nkey_file or bus.anonymous")
	}
}

func (p *problems) validateBusURL(b *Bus) {
	plain, encrypted := false, false
	for address := range strings.SplitSeq(b.URL, ",") {
		scheme, at, _ := strings.Cut(address, "://")
		host, port, err := splitAddress(at)
		if scheme != "nats" && scheme != "tls" || err != nil || host == "" || port == 0 || strings.ContainsAny(at, "@/") {
			p.invalid("bus.url", "%q does not lead to a bus: write nats://host:port or tls://host:port, and what it asks for into keys of its own", address)
			return
		}
		plain, encrypted = plain || scheme == "nats", encrypted || scheme == "tls"
	}
	if plain && encrypted {
		p.invalid("bus.url", "some of it is encrypted and some is not: write tls:// before every address, or before none")
	}
	if plain && b.CAFile != "" {
		p.invalid("bus.ca_file", "bus.url is not encrypted: write tls:// there, or leave this out")
	}
}

func (p *problems) validateCluster(b *Bus) {
	c := &b.Cluster
	p.listenAddress("bus.cluster.listen", c.Listen)
	seen := map[string]int{}
	for i, route := range c.Routes {
		path := fmt.Sprintf("bus.cluster.routes[%d]", i)
		host, port, err := splitAddress(route)
		switch first, twice := seen[strings.ToLower(route)]; {
		case err != nil:
			p.invalid(path, "%q is not an address: %v", route, err)
		case host == "" || port == 0 || strings.Contains(host, "/"):
			p.invalid(path, "%q does not lead to another lagpoller: write the host:port that its bus.cluster.listen stands for", route)
		case twice:
			p.invalid(path, "%q is already bus.cluster.routes[%d]: keep one of them", route, first)
		}
		seen[strings.ToLower(route)] = i
	}
	switch {
	case c.Listen == "" && len(c.Routes) > 0:
		p.invalid("bus.cluster.listen", "the lagpollers of other hosts must reach this one too: give the address for them")
	case c.Listen == "":
	case b.URL != "":
		p.invalid("bus.cluster.listen", "with bus.url no lagpoller serves a bus that could be joined with others: leave one of them out")
	case b.SecretFile == "":
		p.invalid("bus.secret_file", "lagpollers of other hosts do not know this one's secret: name a file that all of them have")
	}
}
