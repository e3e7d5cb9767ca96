package config

import (
	"strings"
	"testing"
)

// Every message is one sentence with the line and the key that says what to do.
func TestBadFilesAreRefusedWithAdvice(t *testing.T) {
	tests := []struct {
		name string
		// keys are added to a minimal file unless it begins with a brace; want is
		// what follows "test.json".
		keys string
		want []string
	}{
		// Not JSON.
		{"empty", "\n \n", []string{`:1: the file is empty: write a JSON object, at least with primary and users`}},
		{"line comment", "{\n  // the primary\n  \"primary\": \"db1:5432\"}", []string{`:2: comments are not allowed in JSON: remove the comment`}},
		{"bus elsewhere without a secret", `"bus": {"url": "nats://bus:4222"}`, []string{`:2: bus.url: the NATS there does not know this host: give bus.secret_file if it is another lagpoller's, or bus.user, bus.password, bus.creds_file, bus.nkey_file or bus.anonymous`}},
		{"no bus", `"bus": {"url": "nats://a:1,ws://b:2", "secret_file": "/s"}`, []string{`:2: bus.url: "ws://b:2" does not lead to a bus: write nats://host:port or tls://host:port, and what it asks for into keys of its own`}},
		{"bus half encrypted", `"bus": {"url": "nats://a:1,tls://b:2", "secret_file": "/s"}`, []string{`:2: bus.url: some of it is encrypted and some is not: write tls:// before every address, or before none`}},
		{"authority of a bus in the clear", `"bus": {"url": "nats://a:1", "anonymous": true, "ca_file": "/ca"}`, []string{`:2: bus.ca_file: bus.url is not encrypted: write tls:// there, or leave this out`}},
		{"two ways to sign in", `"bus": {"url": "nats://a:1", "user": "u", "password": "p", "nkey_file": "/n"}`, []string{`:2: bus.nkey_file: there is another way to sign in already: give one of secret_file, user, password, creds_file, nkey_file and anonymous`}},
		{"user of a bus without a password", `"bus": {"url": "nats://a:1", "user": "u"}`, []string{`:2: bus: give exactly one of password, password_file and password_env`}},
		{"credential for no bus", `"bus": {"creds_file": "/c", "ca_file": "/ca"}`, []string{`:2: bus.creds_file: it is for a NATS elsewhere: give bus.url too, or leave it out`, `:2: bus.ca_file: it is for a NATS elsewhere: give bus.url too, or leave it out`}},
		{"cluster without an address", `"bus": {"secret_file": "/s", "cluster": {"routes": ["b:6222"]}}`, []string{`:2: bus.cluster.listen: the lagpollers of other hosts must reach this one too: give the address for them`}},
		{"cluster without a secret", `"bus": {"cluster": {"listen": ":6222", "routes": ["b:6222"]}}`, []string{`:2: bus.secret_file: lagpollers of other hosts do not know this one's secret: name a file that all of them have`}},
		{"cluster of a bus elsewhere", `"bus": {"url": "nats://a:1", "secret_file": "/s", "cluster": {"listen": ":6222"}}`, []string{`:2: bus.cluster.listen: with bus.url no lagpoller serves a bus that could be joined with others: leave one of them out`}},
		{"route to nowhere", `"bus": {"secret_file": "/s", "cluster": {"listen": ":6222", "routes": ["b", ":6222", "c:1", "C:1"]}}`, []string{
			`:2: bus.cluster.routes[0]: "b" is not an address: the port is missing, write host:port`,
			`:2: bus.cluster.routes[1]: ":6222" does not lead to another lagpoller: write the host:port that its bus.cluster.listen stands for`,
			`:2: bus.cluster.routes[3]: "C:1" is already bus.cluster.routes[2]: keep one of them`}},
		{"cluster at the bus's address", `"bus": {"listen": ":4222", "secret_file": "/s", "cluster": {"listen": ":4222"}}`, []string{`:2: bus.cluster.listen: ":4222" is already the address of bus.listen: use another port`}},
		{"bus with a password", `"bus": {"url": "nats://u:p@a:1", "secret_file": "/s"}`, []string{`:2: bus.url: "nats://u:p@a:1" does not lead to a bus: write nats://host:port or tls://host:port, and what it asks for into keys of its own`}},
		{"bus without a port", `"bus": {"url": "nats://a", "secret_file": "/s"}`, []string{`:2: bus.url: "nats://a" does not lead to a bus: write nats://host:port or tls://host:port, and what it asks for into keys of its own`}},
		{"block comment", "{\"listen\": /* all */ \":1\"}", []string{`:1: comments are not allowed in JSON: remove the comment`}},
		{"hash comment", "# pgpilot\n{}", []string{`:1: comments are not allowed in JSON: remove the comment`}},
		{"trailing comma in an object", "{\n\"listen\": \":1\",\n}", []string{`:3: remove the comma before }: the last entry has none after it`}},
		{"trailing comma in a list", "{\"replicas\": [\"a:1\",\n]}", []string{`:2: remove the comma before ]: the last entry has none after it`}},
		{"missing comma", "{\"listen\": \":1\"\n\"run_dir\": \"/r\"}", []string{`:2: put a comma between this entry and the one before it`}},
		{"single quotes", "{'listen': ':1'}", []string{`:1: put texts and keys in double quotes, not in single ones`}},
		{"cut short", "{\"pool\": {\n\"mode\": \"session\"", []string{`:2: the file ends too early: close every { and [ and every quoted text`}},
		{"two values", "{}\n{}", []string{`:2: this is not JSON: invalid character '{' after top-level value`}},
		{"not UTF-8", "{\n\"users\": [{\"name\": \"\xe4\"}]}", []string{`:2: the text is not UTF-8: save the file as UTF-8`}},
		{"not an object", `["db1:5432"]`, []string{`:1: want an object in { }, not a list`}},
		{"null", `null`, []string{`:1: null is no value: leave the key out for its default`}},

		// Unknown and repeated keys.
		{"misspelt key", `"pool": {"max_sise": 5}`, []string{`:2: pool.max_sise: there is no such key: did you mean pool.max_size?`}},
		{"misspelt part", `"heath": {}`, []string{`:2: heath: there is no such key: did you mean health?`}},
		{"key in the wrong place", `"max_waiters": 5`, []string{`:2: max_waiters: there is no such key: did you mean pool.max_waiters?`}},
		{"letter case", `"Listen": ":1"`, []string{`:2: Listen: there is no such key: did you mean listen?`}},
		{"nothing like it", `"routing": {"xyzzy": 1}`, []string{`:2: routing.xyzzy: there is no such key: known here are all_to_primary, lazy_begin, max_lag, policy, read_functions, read_only_transactions, slow_start`}},
		{"misspelt in a list", `"replicas": ["a:1", {"adress": "b:1"}]`, []string{`:2: replicas[1].adress: there is no such key: did you mean replicas[1].address?`}},
		{"repeated key", "\"listen\": \":1\",\n\"listen\": \":2\"", []string{`:3: listen: the key is already on line 2: keep one of them`}},
		{"repeated key in an object", "\"pool\": {\"mode\": \"session\",\n\"mode\": \"session\"}", []string{`:3: pool.mode: the key is already on line 2: keep one of them`}},

		// Wrong types.
		{"number for text", `"listen": 6432`, []string{`:2: listen: want text in double quotes, not a number`}},
		{"text for number", `"pool": {"max_size": "10"}`, []string{`:2: pool.max_size: want a number without quotes, not text`}},
		{"fraction", `"pool": {"max_size": 1.5}`, []string{`:2: pool.max_size: want a whole number such as 10, not 1.5`}},
		{"exponent", `"pool": {"max_size": 1e1}`, []string{`:2: pool.max_size: want a whole number such as 10, not 1e1`}},
		{"too large", `"pool": {"max_size": 99999999999999999999}`, []string{`:2: pool.max_size: 99999999999999999999 is out of range: write a smaller number`}},
		{"text for a switch", `"observability": {"pprof": "yes"}`, []string{`:2: observability.pprof: want true or false without quotes, not text`}},
		{"null value", `"listen": null`, []string{`:2: listen: null is no value: leave the key out for its default`}},
		{"number for a duration", `"health": {"interval": 5}`, []string{`:2: health.interval: want a duration in double quotes with a unit, such as "250ms" or "5s", not a number`}},
		{"duration without unit", `"health": {"interval": "5"}`, []string{`:2: health.interval: "5" is not a duration: write a number with a unit, such as "250ms" or "5s"`}},
		{"read function without schema", `"routing": {"read_functions": ["public.a", "total"]}`, []string{`:2: routing.read_functions[1]: "total" has no schema: write schema.name, such as public.total`}},
		{"read function with arguments", `"routing": {"read_functions": ["public.total(int)"]}`, []string{`:2: routing.read_functions[0]: "public.total(int)" is not a plain name: write schema.name as pg_proc has it, without quotes and arguments`}},
		{"number for a read function", `"routing": {"read_functions": [1]}`, []string{`:2: routing.read_functions[0]: want text in double quotes, not a number`}},
		{"one replica for a list", `"replicas": "a:1"`, []string{`:2: replicas: want a list in [ ], not text`}},
		{"number for a backend", `"replicas": [5433]`, []string{`:2: replicas[0]: want "host:port" or an object with an address, not a number`}},
		{"text for an object", `"pool": "session"`, []string{`:2: pool: want an object in { }, not text`}},
		{"secret of the wrong type", `{"primary": "a:1", "users": [{"name": "x", "password": 1234}]}`, []string{`:1: users[0].password: want text in double quotes, not a number`}},

		// Servers.
		{"no primary, no users", `{}`, []string{
			`: primary: give the address of the server that accepts writes, as host:port`,
			`: users: nobody could log in: list at least one user with a name and a password`}},
		{"no port", `"replicas": ["db2"]`, []string{`:2: replicas[0]: "db2" is not a server's address: the port is missing, write host:port`}},
		{"no port after a folder", `"replicas": ["/run/postgresql"]`, []string{`:2: replicas[0]: "/run/postgresql" is not a server's address: the port is missing, write host:port`}},
		{"no host", `"replicas": [":5432"]`, []string{`:2: replicas[0]: ":5432" has no host: write host:port`}},
		{"IPv6 without brackets", `"replicas": ["::1:5432"]`, []string{`:2: replicas[0]: "::1:5432" is not a server's address: write host:port, with an IPv6 address in brackets as in [::1]:5432`}},
		{"port too high", `"replicas": [{"address": "db2:65536"}]`, []string{`:2: replicas[0].address: "db2:65536" is not a server's address: "65536" is not a port: write a number from 1 to 65535`}},
		{"port zero", `"replicas": ["db2:0"]`, []string{`:2: replicas[0]: 0 is not a port: write a number from 1 to 65535`}},
		{"port key out of range", `"replicas": [{"host": "db2", "port": 70000}]`, []string{`:2: replicas[0].port: 70000 is not a port: write a number from 1 to 65535`}},
		{"port key zero", `"replicas": [{"host": "db2", "port": 0}]`, []string{`:2: replicas[0].port: 0 is not a port: write a number from 1 to 65535`}},
		{"empty object", `"replicas": [{}]`, []string{`:2: replicas[0]: give the server's address as host:port`}},
		{"address and host", `"replicas": [{"address": "a:1", "host": "a"}]`, []string{`:2: replicas[0]: give either address or host and port, not both`}},
		{"address twice", "\"replicas\": [\"a:1\",\n{\"name\": \"b\", \"address\": \"A:1\"}]", []string{`:3: replicas[1].address: "A:1" is already the address of replicas[0]: list each server once`}},
		{"primary among the replicas", `"replicas": ["db1:5432"]`, []string{`:2: replicas[0]: "db1:5432" is already the address of primary: list each server once`}},
		{"name twice", `"replicas": [{"name": "r", "address": "a:1"}, {"name": "r", "address": "b:1"}]`, []string{`:2: replicas[1].name: "r" is already the name of replicas[0]: give each server its own`}},
		{"name of a subject", `"replicas": [{"name": "snapshot", "address": "a:1"}]`, []string{`:2: replicas[0].name: "snapshot" is a subject of the bus: use another name`}},
		{"control character", `"replicas": [{"name": "a\nb", "address": "a:1"}]`, []string{`:2: replicas[0].name: "a\nb" has a control character in it: use a plain name`}},

		// Listening.
		{"nowhere to connect", `"listen": ""`, []string{`:2: listen: nobody could connect: give listen or listen_unix`}},
		{"a path to listen on", `"listen": "/tmp"`, []string{`:2: listen: "/tmp" is a path: write host:port, Unix sockets go into listen_unix`}},
		{"listen without port", `"listen": "localhost"`, []string{`:2: listen: "localhost" is not an address to listen on: the port is missing, write host:port`}},
		{"relative listen_unix", `"listen_unix": "run"`, []string{`:2: listen_unix: "run" is not an absolute path: begin it with a slash`}},
		{"listen_unix too long", `"listen_unix": "/` + strings.Repeat("x", 92) + `"`, []string{`:2: listen_unix: a path of 93 bytes leaves no room for the name of the socket: use one of at most 92`}},
		{"run_dir too long", `"run_dir": "/` + strings.Repeat("x", 69) + `"`, []string{`:2: run_dir: "/` + strings.Repeat("x", 69) + `" is too long for the sockets inside it: use a path of at most 69 bytes`}},
		{"run_dir empty", `"run_dir": ""`, []string{`:2: run_dir: name the folder for the services' sockets`}},
		{"bus listens nowhere", `"bus": {"listen": "4222"}`, []string{`:2: bus.listen: "4222" is not an address to listen on: the port is missing, write host:port`}},
		{"one port for two", `"listen": ":9090", "observability": {"metrics_addr": ":9090"}`, []string{`:2: observability.metrics_addr: ":9090" is already the address of listen: use another port`}},
		{"pgpilot in front of itself", `"listen": "db1:5432"`, []string{`:2: listen: "db1:5432" is already the address of primary: use another port`}},

		// Logins.
		{"no password", `{"primary": "a:1", "users": [{"name": "x"}]}`, []string{`:1: users[0]: give exactly one of password, password_file and password_env`}},
		{"two passwords", `{"primary": "a:1", "users": [{"name": "x", "password": "y", "password_env": "Z"}]}`, []string{`:1: users[0]: give exactly one of password, password_file and password_env`}},
		{"no name", `{"primary": "a:1", "users": [{"password": "y"}]}`, []string{`:1: users[0]: give the user's name`}},
		{"long name", `{"primary": "a:1", "users": [{"name": "` + strings.Repeat("x", 64) + `", "password": "y"}]}`, []string{`:1: users[0].name: PostgreSQL cuts names at 63 bytes: use a shorter one`}},
		{"zero byte in a name", `{"primary": "a:1", "users": [{"name": "x\u0000", "password": "y"}]}`, []string{`:1: users[0].name: a name cannot hold a zero byte: remove it`}},
		{"user twice", `{"primary": "a:1", "users": [{"name": "x", "password": "y"}, {"name": "x", "password": "z"}]}`, []string{`:1: users[1].name: "x" is already users[0]: keep one of them`}},
		{"verifier", `{"primary": "a:1", "users": [{"name": "x", "password": "SCRAM-SHA-256$4096:c2FsdA==$a:b"}]}`, []string{`:1: users[0].password: this is a SCRAM verifier: verifier-only users come in a later version, so give the password itself`}},
		{"md5", `{"primary": "a:1", "users": [{"name": "x", "password": "md5` + strings.Repeat("0a", 16) + `"}]}`, []string{`:1: users[0].password: this is an MD5 hash: pgpilot logs in with SCRAM-SHA-256, so give the password itself`}},
		{"zero byte", `{"primary": "a:1", "users": [{"name": "x", "password": "a\u0000b"}]}`, []string{`:1: users[0].password: a password cannot hold a zero byte: remove it`}},
		{"monitor without user", `"monitor": {"password": "x"}`, []string{`:2: monitor: a password is given but no user: give monitor.user too, or leave both out to use the first of users`}},
		{"monitor without password", `"monitor": {"user": "m"}`, []string{`:2: monitor: give exactly one of password, password_file and password_env`}},
		{"monitor with a verifier", `"monitor": {"user": "m", "password": "SCRAM-SHA-256$x"}`, []string{`:2: monitor.password: this is a SCRAM verifier: verifier-only users come in a later version, so give the password itself`}},
		{"monitor without database", `"monitor": {"database": ""}`, []string{`:2: monitor.database: name the database that pgpilot's own connections use`}},

		// What users and databases say for their sessions.
		{"fencing of a user", `{"primary": "a:1", "users": [{"name": "x", "password": "y", "fencing": "stict"}]}`, []string{`:1: users[0].fencing: "stict" is not known: did you mean "strict"?`}},
		{"route of a user", `{"primary": "a:1", "users": [{"name": "x", "password": "y", "route": "replicas"}]}`, []string{`:1: users[0].route: "replicas" is not known: did you mean "replica"?`}},
		{"freshness of a user", `{"primary": "a:1", "users": [{"name": "x", "password": "y", "freshness": "25h"}]}`, []string{`:1: users[0].freshness: 25h0m0s is too long: write at most 24h0m0s`}},
		{"route of a database", `"databases": [{"name": "a"}, {"name": "b", "route": "master"}]`, []string{`:2: databases[1].route: "master" is not known: use "auto", "primary" or "replica"`}},
		{"negative freshness", `"databases": [{"name": "a", "freshness": "-1s"}]`, []string{`:2: databases[0].freshness: -1s is too short: write "0s" for the configured limit`}},
		{"database without a name", `"databases": [{"route": "primary"}]`, []string{`:2: databases[0]: give the database's name`}},
		{"database twice", `"databases": [{"name": "a"}, {"name": "a"}]`, []string{`:2: databases[1].name: "a" is already databases[0]: keep one of them`}},

		// Numbers and words.
		{"no bound", `"fencing": {"mode": "bounded"}`, []string{`:2: fencing.bounded_ms: the mode "bounded" needs a bound: write how old, in milliseconds, a read may be`}},
		{"no bound for a database", `"databases": [{"name": "d", "fencing": "bounded"}]`, []string{`: fencing.bounded_ms: the mode "bounded" needs a bound: write how old, in milliseconds, a read may be`}},
		{"a freshness below the interval of polls", `"databases": [{"name": "d", "fencing": "bounded", "freshness": "10ms"}]`, []string{`:2: databases[0].freshness: nothing is known of times shorter than between two polls, so all reads would go to the primary: write at least 1s, or lower health.interval`}},
		{"such a freshness in another mode", `"databases": [{"name": "d", "freshness": "10ms"}]`, []string{`:2: databases[0].freshness: nothing is known of times shorter than between two polls, so all reads would go to the primary: write at least 1s, or lower health.interval`}},
		{"a bound below the interval of polls", `"fencing": {"mode": "bounded", "bounded_ms": 999}`, []string{`:2: fencing.bounded_ms: nothing is known of times shorter than between two polls: write at least 1000, or lower health.interval (1s)`}},
		{"no such thing to do without a primary", `"fencing": {"on_primary_loss": "server"}`, []string{`:2: fencing.on_primary_loss: "server" is not known: did you mean "serve"?`}},
		{"misspelt mode", `"fencing": {"mode": "stict"}`, []string{`:2: fencing.mode: "stict" is not known: did you mean "strict"?`}},
		{"unknown pool mode", `"pool": {"mode": "statement"}`, []string{`:2: pool.mode: "statement" is not known: use "session" or "transaction"`}},
		{"unknown policy", `"routing": {"policy": "round_robin"}`, []string{`:2: routing.policy: "round_robin" is not known: did you mean "round-robin"?`}},
		{"unknown log format", `"observability": {"log_format": "logfmt"}`, []string{`:2: observability.log_format: "logfmt" is not known: use "text" or "json"`}},
		{"no connections", `"pool": {"max_size": 0}`, []string{`:2: pool.max_size: 0 is too small: write at least 1`}},
		{"negative wait", `"fencing": {"wait": "-1s"}`, []string{`:2: fencing.wait: -1s is too short: write "0s" not to wait at all`}},
		{"negative limit of lag", `"routing": {"max_lag": "-1s"}`, []string{`:2: routing.max_lag: -1s is too short: write "0s" for no limit`}},
		{"no weight", `"replicas": [{"address": "a:1", "weight": 0}]`, []string{`:2: replicas[0].weight: 0 is not a weight: write a number from 1 to 1000`}},
		{"no burst pause", `"fencing": {"burst_interval": "0s"}`, []string{`:2: fencing.burst_interval: 0s is too short: write a duration above zero`}},
		{"endless", `"pool": {"idle_timeout": "100000h"}`, []string{`:2: pool.idle_timeout: 100000h0m0s is too long: write at most 720h0m0s`}},
		{"back-off order", `"health": {"base_backoff": "1m"}`, []string{`:2: health.max_backoff: 30s is shorter than health.base_backoff, 1m0s: make it at least as long`}},
		{"a lag no longer than between two polls", `"routing": {"max_lag": "1s"}`, []string{`:2: routing.max_lag: 1s is not longer than health.interval, 1s, by which a replica that lacks nothing can seem to lag, so reads of healthy replicas would go to the primary: make it at least twice as long, or lower health.interval`}},
		{"part of a day", `"pool": {"idle_timeout": "1.5d"}`, []string{`:2: pool.idle_timeout: "1.5d" is not a duration: write a number with a unit, such as "250ms" or "5s"`}},
		{"stale before the next poll", `"health": {"interval": "2s", "stale_after": "2s"}`, []string{`:2: health.stale_after: 2s is not longer than health.interval, 2s, so replicas would be taken for lost between two polls: make it longer`}},

		// TLS and TCP.
		{"key without a certificate", `"tls": {"key_file": "k"}`, []string{`:2: tls.cert_file: a key is of no use without its certificate: name the file of the certificate too`}},
		{"certificate without a key", `"tls": {"cert_file": "c"}`, []string{`:2: tls.key_file: a certificate is of no use without its key: name the file of the key too`}},
		{"TLS required without a certificate", `"tls": {"mode": "require"}`, []string{`:2: tls.mode: nobody could connect without a certificate: name its files in tls.cert_file and tls.key_file`}},
		{"authorities without TLS", `"tls": {"ca_file": "c"}`, []string{`:2: tls.ca_file: clients show certificates only over TLS: name the server's own in tls.cert_file and tls.key_file`}},
		{"client certificates of nobody", `"tls": {"mode": "require", "cert_file": "c", "key_file": "k", "clientcert": "verify-ca"}`, []string{`:2: tls.clientcert: "verify-ca" needs the authorities that sign clients' certificates: name their file in tls.ca_file`}},
		{"client certificates without TLS", `"tls": {"cert_file": "c", "key_file": "k", "ca_file": "a", "clientcert": "verify-full"}`, []string{`:2: tls.clientcert: "verify-full" is of no use while clients may connect without TLS: set tls.mode to "require"`}},
		{"old TLS", `"tls": {"min_protocol_version": "TLSv1.1"}`, []string{`:2: tls.min_protocol_version: "TLSv1.1" is not known: did you mean "TLSv1.2"?`}},
		{"libpq's word for clients", `"tls": {"mode": "verify-full"}`, []string{`:2: tls.mode: "verify-full" is not known: use "disable", "allow" or "require"`}},
		{"verified by nobody", `"server_tls": {"sslmode": "verify-full"}`, []string{`:2: server_tls.sslrootcert: "verify-full" needs the authorities to trust: name their file, or write "system"`}},
		{"anybody's certificate", `"server_tls": {"sslmode": "verify-ca", "sslrootcert": "system"}`, []string{`:2: server_tls.sslmode: "verify-ca" is too weak with the authorities of the system, who sign for everybody: set it to "verify-full"`}},
		{"own certificate without a key", `"server_tls": {"sslcert": "c"}`, []string{`:2: server_tls.sslkey: a certificate is of no use without its key: name the file of the key too`}},
		{"own key without a certificate", `"server_tls": {"sslkey": "k"}`, []string{`:2: server_tls.sslcert: a key is of no use without its certificate: name the file of the certificate too`}},
		{"half a second", `"tcp": {"keepalives_idle": "500ms"}`, []string{`:2: tcp.keepalives_idle: 500ms is no multiple of 1s: write one, or "0s" for what the system has`}},
		{"a day between probes", `"tcp": {"keepalives_interval": "24h"}`, []string{`:2: tcp.keepalives_interval: 24h0m0s is too long: write at most 9h6m7s`}},
		{"too many probes", `"tcp": {"keepalives_count": 128}`, []string{`:2: tcp.keepalives_count: 128 is out of range: write a number from 1 to 127, or 0 for what the system has`}},
		{"negative user timeout", `"tcp": {"user_timeout": "-1s"}`, []string{`:2: tcp.user_timeout: -1s is no multiple of 1ms: write one, or "0s" for what the system has`}},

		// All at once, in the file's order.
		{"several", "\"pool\": {\n\"max_size\": \"x\",\n\"max_waiters\": -1,\n\"mod\": \"session\"},\n\"replicas\": [\"b\"]", []string{
			`:3: pool.max_size: want a number without quotes, not text`,
			`:4: pool.max_waiters: -1 is too small: write at least 0`,
			`:5: pool.mod: there is no such key: did you mean pool.mode?`,
			`:6: replicas[0]: "b" is not a server's address: the port is missing, write host:port`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := tt.keys
			if strings.HasPrefix(text, `"`) {
				text = "{" + minimal + ",\n" + tt.keys + "}"
			}
			_, err := Parse([]byte(text), "test.json")
			want := "test.json" + strings.Join(tt.want, "\ntest.json")
			if err == nil || err.Error() != want {
				t.Errorf("got\n%v\nwant\n%s\nfor\n%s", err, want, text)
			}
		})
	}
}
