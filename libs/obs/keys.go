package obs

// Keys of log attributes. One thing has one key in every service, so that a log
// store can follow it through all of them.
const (
	// KeyService and KeyInstance are on every line of a service.
	KeyService  = "service"
	KeyInstance = "instance"
	// KeySession is the id of a client's session, on every line about one.
	KeySession = "session"
	// KeyClient is a client's address.
	KeyClient = "client"
	// KeyUser and KeyDatabase are those of a session or of a server connection.
	KeyUser     = "user"
	KeyDatabase = "database"
	// KeyApplication is a client's application_name.
	KeyApplication = "application"
	// KeyBackend is a server's configured name, KeyAddress what is dialled for it.
	KeyBackend = "backend"
	KeyAddress = "address"
	// KeyRole is what a server is: primary, replica or unknown.
	KeyRole = "role"
	// KeyPeer is another service's instance, such as router.1.
	KeyPeer = "peer"
	// KeySubject is a subject of the bus.
	KeySubject = "subject"
	// KeyLSN is a log position.
	KeyLSN = "lsn"
	// KeyError is why something failed.
	KeyError = "error"
	// KeyReason is why something was decided.
	KeyReason = "reason"
	// KeySQLState is the five-character code of an error of PostgreSQL.
	KeySQLState = "sqlstate"
	// KeyDuration is how long something took.
	KeyDuration = "duration"
	// KeyCount is how many there were.
	KeyCount = "count"
	// KeyPath is a file or socket.
	KeyPath = "path"
	// KeyConfig is a whole configuration, without its secrets.
	KeyConfig = "config"
	// KeyConfigKeys are the keys of the configuration that a line is about.
	KeyConfigKeys = "config_keys"
	// KeySignal is the signal that was received.
	KeySignal = "signal"
	// KeyVersion is the version of this build.
	KeyVersion = "version"
)
