package wire

// Message types sent by a client (frontend).
const (
	Bind         = 'B'
	Close        = 'C'
	CopyFail     = 'f'
	Describe     = 'D'
	Execute      = 'E'
	Flush        = 'H'
	FunctionCall = 'F'
	Parse        = 'P'
	Query        = 'Q'
	Sync         = 'S'
	Terminate    = 'X'
)

// Message types sent by either side.
const (
	CopyData = 'd'
	CopyDone = 'c'
)

// Message types sent by a server (backend).
const (
	Authentication           = 'R'
	BackendKeyData           = 'K'
	BindComplete             = '2'
	CloseComplete            = '3'
	CommandComplete          = 'C'
	CopyBothResponse         = 'W'
	CopyInResponse           = 'G'
	CopyOutResponse          = 'H'
	DataRow                  = 'D'
	EmptyQueryResponse       = 'I'
	ErrorResponse            = 'E'
	FunctionCallResponse     = 'V'
	NegotiateProtocolVersion = 'v'
	NoData                   = 'n'
	NoticeResponse           = 'N'
	NotificationResponse     = 'A'
	ParameterDescription     = 't'
	ParameterStatus          = 'S'
	ParseComplete            = '1'
	PortalSuspended          = 's'
	ReadyForQuery            = 'Z'
	RowDescription           = 'T'
)

// Transaction status in ReadyForQuery.
const (
	Idle          = 'I'
	InTransaction = 'T'
	Failed        = 'E'
)
