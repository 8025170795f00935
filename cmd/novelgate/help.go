package main

import (
	"fmt"
	"maps"

	"github.com/alecthomas/kong"
)

// flagHelp is what --help says about flags, by name. A flag whose tag has no help gets its text from here, so a flag of
// several commands says the same in all of them.
var flagHelp = map[string]string{
	// The database.
	"database-url": "URL of the PostgreSQL database. It takes precedence over --data-dir. Empty: the embedded PostgreSQL.",
	"data-dir":     "Directory of the embedded PostgreSQL and of the keys of the ledger (default: ${data_dir}).",
	"database-connections": "Maximum number of connections to the database (default: 20 with two lanes, and one more " +
		"for each further lane).",
	"read-database-url": "Hot standbys of the database, one host or several, to read from.",
	"read-max-lag": "Longest time that a standby may be behind; beyond it the database itself is read (default: " +
		"${default}).",
	"allow-unsafe-durability": "Start on a database that may lose acknowledged commands in a crash (fsync, " +
		"synchronous_commit or full_page_writes off).",

	// The service.
	"listen":     "Address for partners, staff and readers; port 0 selects a free port (default: ${default}).",
	"ops-listen": "Address for operators: /metrics, /healthz, /readyz, /debug/pprof/ (default: ${default}).",
	"public-url": "Prefix of the URLs in responses, the same for all replicas (default: the listening address).",
	"request-timeout": "Time limit from the arrival of a request's body to its response; afterwards 503 (default: " +
		"${default}).",
	"lanes": "Concurrent batches of commands (default: one for every two processors, at least 2).",
	"readers": "Concurrent requests of readers (pages, their JSON, the ledger); further ones get 503 (default: " +
		"${default}).",
	"connections": "Open connections at --listen; beyond this limit, each new connection closes one that waits for its " +
		"client (default: ${default}).",
	"pause-projections": "Run no asynchronous projections in this process, and do not seal, sign or publish the ledger.",
	"import-retention": "How long lines and results of a bulk import are kept after its end, and how long an import " +
		"without any change stays open (default: ${default}).",
	"sandboxes": "Sandboxes of partners that are open at a time, with up to 15 database connections each; 0: keys of " +
		"sandboxes are refused (default: ${default}).",
	"webhook-allow-cidr": "Private addresses to which webhooks may be sent, also by http, such as 10.1.0.0/16. " +
		"Repeatable.",
	"webhook-retries": "Waits between the attempts to send a change to a webhook (default: ${default}).",
	"log-level":       "debug, info, warn or error (default: ${default}).",

	// The pages.
	"site-name":    "Name of the platform on its pages (default: ${default}).",
	"site-logo":    "Picture in the header of the pages, in place of the name: SVG or PNG, at most 256 KiB.",
	"site-accent":  "Colour of the line at the top of the pages, such as #1a4fc4.",
	"site-imprint": "Address of the imprint, for the foot of the pages.",
	"site-terms":   "Address of the terms of use, for the foot of the pages.",
	"covers": "direct: browsers load covers from the partners' hosts; proxy: the service loads them; none: pages show " +
		"the first letter of the title (default: ${default}).",

	// The ledger.
	"ledger-key": "File of the private keys that sign checkpoints of the ledger, the same for all replicas (default: " +
		"ledger.key in the data directory, created at the first start).",
	"ledger-memory": "Directory outside the database that stores the newest signed checkpoint (default: beside the " +
		"keys, FILE.memory). Replicas may share it. Never sign with a copy of it.",
	"ledger-origin": "Name under which the ledger is signed. Another name starts a new origin (default: the current " +
		"origin; at the first start the public URL without scheme, /ledger/ and 8 digits of the log's id).",
	"ledger-publish-dir": "Directory for a copy of every checkpoint. It must not contain checkpoints of another origin " +
		"or history.",
	"ledger-publish-url":    "HTTP endpoint that receives every checkpoint. Redirects are not followed.",
	"ledger-publish-method": "Method for --ledger-publish-url: POST or PUT (default: ${default}).",
	"ledger-witness": "Witness that cosigns checkpoints (C2SP tlog-witness): its submission prefix. Repeatable. " +
		"Redirects are not followed.",
	"ledger-witness-key": "Public key of the witness, one for each --ledger-witness in the same order.",
	"ledger-quorum": "Cosignatures that clients should find on a checkpoint: the newest one with as many is served " +
		"until the next one is 10 s old, then the newest of all (default: one of each witness).",
	"pause-ledger": "Do not seal, sign or publish the ledger in this process.",

	// Relay, mirror and promotion.
	"relay": "NATS servers to which sealed events are published (JetStream), separated by commas: nats:// or tls://. " +
		"One replica of the service is active.",
	"relay-replicas": "NATS servers that store each message, for streams that the relay makes: 1, 3 or 5 (default: " +
		"${default}; 1 for a single server).",
	"mirror": "Run as a mirror, which verifies the history of another service and serves it to readers: of the service " +
		"at this public URL, or of --origin, whose events these NATS servers have (nats:// or tls://, separated by " +
		"commas). The database must be empty at the first start.",
	"origin":     "With NATS servers in --mirror: public URL of the mirrored service, whose ledger signs the events.",
	"origin-key": "With --mirror: file with the public keys of the origin's ledger, one per line.",
	"auditor-key": "With the URL of the origin in --mirror: API key of an auditor there. Use the environment variable: " +
		"others can see the command line.",
	"mirror-bundle": "With --mirror: bundle of events export with the beginning of the history. Repeatable, for the " +
		"bundles that continue it, in order.",
	"successor": "Public URL of a mirror that may be promoted, or of this service, if that URL will lead to the " +
		"promoted mirror. The service asks there every five seconds. After a promotion it accepts no more commands. " +
		"Repeatable.",

	// The history.
	"stream-type": "Of this kind of aggregate: novel, thread, post, author, integration, person, projection.",
	"since": "Export only the events after an earlier bundle, or from a log index on. The start is rounded down to the " +
		"beginning of a file of 4096 events.",
	"against": "A kept checkpoint or an older bundle that the history must continue. One that ends before the first " +
		"event of DIR cannot be compared, which is a fault.",
	"policy": "Policy (C2SP tlog-policy) with the logs and witnesses that must have signed. Without --key its logs are " +
		"the keys (default: no witness is demanded).",
	"first-log-index": "First log index of DIR, for a bundle that continues others. Events before it are not verified; " +
		"verify them separately (default: 0, everything).",
	"projections": "With the database: replay the events and compare the result with all projected tables. This needs " +
		"permission to create schemas, and disk space for a copy of the largest projection.",
	"output": "File to write; replaced when the export is complete, readable by its owner only (default: standard " +
		"output).",

	// Integrations, novels and authors.
	"capability":        "Capability: novels (create novels), posts (post ingestion) or import (bulk import). Repeatable.",
	"enable":            "Capability to switch on. Repeatable.",
	"disable":           "Capability to switch off. Repeatable.",
	"sandbox":           "Create it in a new sandbox: its novels and comments are visible to its keys and staff only.",
	"posts-per-minute":  "Comments per minute, including retries (default: 60).",
	"novels-per-minute": "Novel creations per minute, including those by comments (default: 60).",
	"novel-updates-per-minute": "Updates of its own novels per minute, including those without changes, excluding " +
		"retries; off: no limit (default: off).",
	"lines-per-minute": "Lines of bulk imports per minute (default: 60000).",
	"genre":            "1 to 50 characters. Repeatable, at most 20 times. The genres replace the list.",
	"reading-status":   "ongoing, completed or hiatus.",
	"state": "Only novels in this state: pending, approved, published, rejected or free (a title without a novel that " +
		"is no longer rejected).",
	"vacuum": "Also remove the erased data from the files and statistics of the tables (VACUUM), after the projections " +
		"have applied the erasure. This is slow for large tables.",

	// Bulk imports.
	"format":    "Format of the files (default: by their names).",
	"operation": "Operation of the rows of CSV (default: ${default}).",
	"map": "Member of the body that a column of CSV is, or key for the idempotencyKey (default: the member of its " +
		"name). Repeatable.",
}

// setFlagHelp gives each flag without help its text. It fails for a flag without a text, and for a text without a flag.
func setFlagHelp(k *kong.Kong) error {
	unused := maps.Clone(flagHelp)
	err := kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && flag.Help == "" {
			if flag.Help = flagHelp[flag.Name]; flag.Help == "" {
				return fmt.Errorf("there is no help for --%s", flag.Name)
			}
			delete(unused, flag.Name)
		}
		return next(nil)
	})
	for name := range unused {
		return fmt.Errorf("there is help for --%s, which no command has", name)
	}
	return err
}
